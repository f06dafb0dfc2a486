import { describe, expect, test } from "vitest";
import { startStdio, until } from "../support/program.ts";

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

  test.concurrent("progress tells the time and the last printed line while the cell runs", async ({
    onTestFinished,
  }) => {
    const client = await startStdio({ atEnd: onTestFinished });
    const { session_id } = (await client.run("import os, time")).execution;
    const messages: string[] = [];
    const cell = client.call(
      "execute_code",
      { session_id, code: "print('working on it')\nwhile not os.path.exists('go'): time.sleep(0.05)" },
      { onprogress: ({ message = "" }) => messages.push(message) },
    );
    await until("progress", () => messages.some((message) => message.includes("working on it")));
    await client.call("write_file", { session_id, path: "go", content: "" });
    expect((await cell).execution.status).toBe("ok");
  });
});
