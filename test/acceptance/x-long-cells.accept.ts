/** Long cells, with the native tools. X-11 in the toolsets: x-profiles-long. */

import { describe, expect, test } from "vitest";
import { startStdio } from "../support/program.ts";
import { newSession, onWasm } from "./x-support.ts";

describe.concurrent("long cells", () => {
  test("X-11 twelve seconds and forty silent ones are not too long, an endless loop ends at its limit", async ({
    onTestFinished,
  }) => {
    const client = await startStdio({ args: onWasm, atEnd: onTestFinished });
    const cells = {
      twelve: "time.sleep(12)\nprint('ok')",
      silent: "print('first', flush=True)\ntime.sleep(40)\nprint('second')",
      endless: "print('begun', flush=True)\nwhile True: pass",
    };
    const [twelve, silent, endless] = await Promise.all(
      Object.values(cells).map(async (code) => {
        const session_id = await newSession(client);
        const limit = code === cells.endless ? { timeout_s: 2 } : {};
        const reply = await client.run(code, { session_id, wait_s: 110, ...limit });
        const next = await client.run("print('own')\n40 + 2", { session_id });
        expect(next.structured).toMatchObject({ status: "ok", stdout: "own\n", result: "42" });
        return reply.structured;
      }),
    );
    expect(twelve).toMatchObject({ status: "ok", stdout: "ok\n" });
    expect(silent).toMatchObject({ status: "ok", stdout: "first\nsecond\n" });
    expect(endless).toMatchObject({ status: "timeout", stdout: "begun\n" });
  }, 120_000);

  test("X-15 a cell of 90 s tells that it is alive at least every 10 s", async ({ onTestFinished }) => {
    const client = await startStdio({ args: onWasm, atEnd: onTestFinished });
    const session_id = await newSession(client);
    const at = [performance.now()];
    const reply = await client.call(
      "execute_code",
      { session_id, code: "time.sleep(90)\n'the end'", wait_s: 115 },
      { onprogress: () => at.push(performance.now()) },
    );
    expect(reply.structured).toMatchObject({ status: "ok", result: "'the end'" });
    at.push(performance.now());
    const gaps = at.slice(1).map((moment, index) => moment - (at[index] ?? 0));
    expect(Math.max(...gaps)).toBeLessThan(10_000);
    expect(gaps.length).toBeGreaterThanOrEqual(9);
  }, 120_000);
});
