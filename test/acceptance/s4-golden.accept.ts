/** Recorded answers of mcp-run-python: each request is repeated in a fresh interpreter. */

import { expect, test } from "vitest";
import { describeWith } from "../support/requirements.ts";
import data from "./data/mcp-run-python.json" with { type: "json" };
import { onLocal, startStdio } from "./s4-support.ts";
import { type RawReply, type ToolsetClient, textOf } from "./toolset-program.ts";

interface Golden {
  name: string;
  arguments: Record<string, unknown>;
  xml?: string;
  xmlMatches?: string;
  errorNames?: string;
  json?: Record<string, unknown>;
}

const all = data as Golden[];
/** The number of processors of a small machine. */
const AT_ONCE = 3;
const REPLAY_MS = 300_000;

test(
  "golden replies in XML",
  async () => {
    const server = await startStdio();
    await replay(server, all, ({ xml, xmlMatches, errorNames }, reply) => {
      expect(reply.isError ?? false).toBe(errorNames !== undefined);
      if (errorNames !== undefined) expect(textOf(reply)).toContain(errorNames);
      else if (xmlMatches !== undefined) expect(textOf(reply)).toMatch(new RegExp(xmlMatches));
      else expect(textOf(reply)).toBe(xml);
    });
  },
  REPLAY_MS,
);

describeWith("localKernels", "on local kernels", () => {
  test(
    "golden replies in JSON",
    async () => {
      const server = await startStdio([...onLocal, "--return-mode", "json"]);
      const values = all.filter(({ json }) => json && json.status === "success");
      expect(values.length).toBeGreaterThan(50);
      await replay(server, values, ({ json }, reply) => expect(JSON.parse(textOf(reply))).toMatchObject(json ?? {}));
    },
    REPLAY_MS,
  );
});

async function replay(
  server: ToolsetClient,
  entries: Golden[],
  check: (golden: Golden, reply: RawReply) => void,
): Promise<void> {
  const waiting = [...entries];
  const wrong: string[] = [];
  const worker = async () => {
    for (let golden = waiting.shift(); golden; golden = waiting.shift()) {
      const reply = await server.call("run_python_code", golden.arguments);
      try {
        check(golden, reply);
      } catch (error) {
        wrong.push(`${golden.name}: ${(error as Error).message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  expect(wrong).toEqual([]);
}
