import { describe, expect, test } from "vitest";
import { startStdio } from "../support/program.ts";

describe("long cells", () => {
  test.concurrent.for([
    { seconds: 12, wait_s: 3 },
    { seconds: 70, wait_s: 20 },
  ])(
    "a cell of $seconds s is returned as running and collected with wait, nothing printed twice or lost",
    { timeout: 120_000 },
    async ({ seconds, wait_s }, { onTestFinished }) => {
      const client = await startStdio({ atEnd: onTestFinished });
      const code = `import time\nfor i in range(${seconds}):\n    print('tick', i)\n    time.sleep(1)\n'the end'`;
      const replies = [await client.run(code, { wait_s })];
      const { session_id } = replies[0]?.execution ?? { session_id: "" };
      while (replies.at(-1)?.execution.status === "running")
        replies.push(await client.call("wait", { session_id, wait_s }));
      expect(replies.length).toBeGreaterThan(2);
      const ticks = replies.flatMap(({ text }) => [...text.matchAll(/tick (\d+)/g)].map((match) => Number(match[1])));
      expect(ticks).toEqual(Array.from({ length: seconds }, (_, i) => i));
      expect(replies.at(-1)?.execution.status).toBe("ok");
      expect(replies.at(-1)?.text).toContain("the end");
      const again = await client.call("wait", { session_id });
      expect(again.text).toContain("tick 0");
      expect(again.text).toContain("the end");
    },
  );

  test.concurrent("progress tells the time and the last printed line at least every 10 s", async ({
    onTestFinished,
  }) => {
    const client = await startStdio({ atEnd: onTestFinished });
    const messages: { at: number; message?: string }[] = [];
    const began = performance.now();
    await client.call(
      "execute_code",
      { code: "import time\nprint('working on it')\ntime.sleep(11)" },
      { onprogress: ({ message }) => messages.push({ at: performance.now() - began, message }) },
    );
    expect(messages.length).toBeGreaterThan(0);
    expect(messages[0]?.at).toBeLessThan(10_000);
    expect(messages.some(({ message }) => message?.includes("working on it"))).toBe(true);
  });
});
