/** Cases that hold in every toolset, each in its own words: what is asked of all of them is in the cases' own files. */

import { expect, test } from "vitest";
import { freePort } from "../support/jupyter-server.ts";
import { type AtEnd, descendants } from "../support/program.ts";
import { describeWith, requirement } from "../support/requirements.ts";
import { S1Server } from "./s1-support.ts";
import { startPool } from "./sandboxes.ts";
import { type RawReply, startToolset, startToolsetServer, type ToolsetClient, textOf } from "./toolset-program.ts";
import { environment, shared } from "./x-support.ts";

interface Profile {
  /** Without a program that forks kernels in advance. */
  start(args: string[], atEnd: AtEnd): Promise<ToolsetClient>;
  /** Its arguments for a cell: in a session, or in a new one. */
  cell(code: string, session: string | undefined, limitS?: number): Record<string, unknown>;
  tool: string;
  /** How the session is called that a reply belongs to; absent where there are none. */
  session?(reply: RawReply): string;
  /** Its setting of the time limit, where a call has none. */
  limit?: string;
}

const s1 = (toolset: string) => ({
  start: async (args: string[], atEnd: AtEnd) => {
    const server = await S1Server.start(requirement("jupyterServer").path, toolset, atEnd);
    return server.program({ args, atEnd });
  },
  tool: "execute_code",
  limit: "--timeout",
});

const profiles: Record<string, Profile> = {
  "mcp-python-code-interpreter": {
    start: (args, atEnd) =>
      startToolsetServer("mcp-python-code-interpreter", {
        args: ["--env", environment, "--port", "0", "--warm", "0", ...args],
        atEnd,
      }),
    tool: "execute_code",
    cell: (code, session) => ({ code, ...(session ? { session_id: session } : {}) }),
    session: ({ structuredContent }) =>
      String((structuredContent as { session_info: { session_id: string } }).session_info.session_id),
    limit: "--timeout",
  },
  "jupyter-interpreter-mcp": {
    ...s1("jupyter-interpreter-mcp"),
    cell: (code, session) => ({ code, ...(session ? { session_id: Number(session) } : {}) }),
    session: ({ structuredContent }) => String(structuredContent?.session_id),
  },
  "jupyter-interpreter-mcp@0.4": {
    ...s1("jupyter-interpreter-mcp@0.4"),
    cell: (code, session) => ({ code, session_id: session }),
    session: ({ structuredContent }) => String(structuredContent?.session_id),
  },
  "ipython-mcp": {
    start: (args, atEnd) =>
      startToolset("ipython-mcp", { args: ["--env", environment, "--warm", "0", ...args], atEnd }),
    tool: "execute",
    cell: (code, session = "mine", limitS) => ({ session, code, ...(limitS ? { timeout_s: limitS } : {}) }),
    session: () => "mine",
  },
  "code-interpreter-lb": {
    start: async (args, atEnd) => {
      const { urls } = await startPool(String(await freePort()), ["--kernel", "wasm"], atEnd);
      return startToolset("code-interpreter-lb", {
        args: [...urls.flatMap((url) => ["--pool-url", url]), ...args],
        atEnd,
      });
    },
    tool: "execute_python",
    cell: (code, session_id = "mine", limitS) => ({ session_id, code, ...(limitS ? { timeout: limitS } : {}) }),
    session: () => "mine",
  },
  "mcp-run-python": {
    start: (args, atEnd) => startToolset("mcp-run-python", { args: ["--warm", "0", ...args, "stdio"], atEnd }),
    tool: "run_python_code",
    cell: (python_code) => ({ python_code }),
    limit: "--timeout",
  },
};

describeWith("localKernels", "on this machine", () =>
  describeWith("jupyterServer", "and on a Jupyter server", () => {
    for (const [name, { start, tool, cell, session: sessionOf, limit }] of Object.entries(profiles)) {
      describeProfile(name, () => {
        // The limit holds for all cells of a server where calls have none: long cells have a server of their own.
        const limited = shared((atEnd) => start(limit ? [limit, "2s"] : [], atEnd));
        const patient = limit ? shared((atEnd) => start([], atEnd)) : limited;
        const begin = async (client: ToolsetClient) =>
          name === "jupyter-interpreter-mcp@0.4"
            ? String((await client.call("create_session")).structuredContent?.session_id)
            : undefined;

        // First of all: nothing has been started yet.
        test("X-45 a missing, and a mistyped argument are named, and start no kernel", async () => {
          const client = limited();
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

        test.runIf(sessionOf)(
          "X-03 a first cell that raises keeps its session, with what it had assigned",
          async () => {
            const client = limited();
            const first = await client.call(tool, cell("earlier = 'kept'\n1/0", await begin(client)));
            expect(textOf(first)).toContain("ZeroDivisionError");
            const next = await client.call(tool, cell("print(earlier * 2)", sessionOf?.(first)));
            expect(textOf(next)).toContain("keptkept");
          },
        );

        test("X-11 twelve seconds are not too long, an endless loop ends at its limit, and the next call works", async () => {
          const [client, other] = [limited(), patient()];
          const [mine, theirs] = [await begin(client), await begin(other)];
          const long = other.call(tool, cell("import time\ntime.sleep(12)\nprint('slept ' * 2)", theirs && theirs, 40));
          if (limited !== patient) await endless();
          expect(textOf(await long)).toContain("slept slept");
          if (limited === patient) await endless();

          async function endless() {
            const stopped = await client.call(tool, cell("print('begun ' * 2, flush=True)\nwhile True: pass", mine, 2));
            expect(textOf(stopped)).toContain("begun begun");
            expect(textOf(stopped)).toMatch(/time.?out|timed out|TimeOutError|exceeded 2 s|stopped after 2 s/i);
            const again = sessionOf && name !== "mcp-python-code-interpreter" ? sessionOf(stopped) : mine;
            expect(textOf(await client.call(tool, cell("print('next ' * 2)", again, 20)))).toContain("next next");
          }
        });
      });
    }
  }),
);

function describeProfile(name: string, suite: () => void): void {
  describeWith("localKernels", `--toolset ${name}`, suite);
}

/** Some of them answer wrong arguments as an error of the protocol. */
function refusalOf(error: Error): RawReply {
  return { content: [{ type: "text", text: error.message }], isError: true };
}
