/** X-11 in every toolset, concurrently: most of the time is waiting. */

import { describe, expect, test } from "vitest";
import { describeProfile, profiles } from "./profiles.ts";
import { type ToolsetClient, textOf } from "./toolset-program.ts";

describe.concurrent("long cells in toolsets", () => {
  for (const [name, { start, tool, cell, begin, session, limit }] of Object.entries(profiles)) {
    describeProfile(name, () => {
      const title = "twelve seconds are not too long, an endless loop ends at its limit, and the next call works";
      test(`X-11 ${title}`, { timeout: 120_000 }, async ({ onTestFinished }) => {
        // If calls have no time limit, the server's limit applies to all its cells: the long cell needs another server.
        const patient = await start([], onTestFinished);
        const limited = limit ? await start([limit, "2s"], onTestFinished) : patient;
        const [long] = await Promise.all([slept(patient), limit && endless(limited)]);
        expect(long).toContain("slept slept");
        if (!limit) await endless(limited);
      });
    });

    async function slept(client: ToolsetClient): Promise<string> {
      const code = "import time\ntime.sleep(12)\nprint('slept ' * 2)";
      return textOf(await client.call(tool, cell(code, await begin?.(client), 40)));
    }

    async function endless(client: ToolsetClient): Promise<void> {
      const first = await client.call(tool, cell("print('first')", await begin?.(client), 20));
      const mine = session?.(first);
      const stopped = textOf(
        await client.call(tool, cell("print('begun ' * 2, flush=True)\nwhile True: pass", mine, 2)),
      );
      expect(stopped).toContain("begun begun");
      expect(stopped).toMatch(/timeout after 2|timed out|stopped after 2 s|exceeded 2 s/i);
      expect(textOf(await client.call(tool, cell("print('next ' * 2)", mine, 20)))).toContain("next next");
    }
  }
});
