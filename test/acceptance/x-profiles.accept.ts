/** in every toolset, with its own texts. */

import { expect, test } from "vitest";
import { descendants } from "../support/program.ts";
import { describeProfile, profiles } from "./profiles.ts";
import { type RawReply, textOf } from "./toolset-program.ts";
import { shared } from "./x-support.ts";

for (const [name, { start, tool, cell, begin, session: sessionOf }] of Object.entries(profiles)) {
  describeProfile(name, () => {
    const program = shared((atEnd) => start([], atEnd));

    // First, because nothing has been started yet.
    test("X-45 a missing, and a mistyped argument are named, and start no kernel", async () => {
      const client = program();
      const { tools } = await client.client.listTools();
      for (const { name: called, inputSchema } of tools) {
        const properties = Object.entries(inputSchema.properties ?? {}) as [string, { type?: string }][];
        const required = Object.fromEntries((inputSchema.required ?? []).map((key) => [key, "x"]));
        const refused = async (args: Record<string, unknown>, argument: string) => {
          const reply = await client.call(called, args).catch((error: Error) => refusalOf(error));
          expect({ called, argument, ...reply }).toMatchObject({ called, argument, isError: true });
          expect(textOf(reply)).toContain(argument);
        };
        for (const key of inputSchema.required ?? []) {
          const { [key]: _, ...rest } = required;
          await refused(rest, key);
        }
        for (const [key, { type }] of properties) {
          await refused({ ...required, [key]: type === "object" ? "text" : { not: "expected" } }, key);
        }
      }
      expect(descendants(client.pid)).toEqual([]);
    });

    if (!sessionOf) return;
    test("X-03 a first cell that raises keeps its session, with what it had assigned", async () => {
      const client = program();
      const first = await client.call(tool, cell("earlier = 'kept'\n1/0", await begin?.(client)));
      expect(textOf(first)).toContain("ZeroDivisionError");
      const next = await client.call(tool, cell("print(earlier * 2)", sessionOf(first)));
      expect(textOf(next)).toContain("keptkept");
    });
  });
}

/** Some of them report wrong arguments as a protocol error. */
function refusalOf(error: Error): RawReply {
  return { content: [{ type: "text", text: error.message }], isError: true };
}
