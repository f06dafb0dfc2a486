/** Every toolset, and how to run a cell in it: for cases that must hold in all of them. */

import { freePort } from "../support/jupyter-server.ts";
import type { AtEnd } from "../support/program.ts";
import { describeWith, requirement } from "../support/requirements.ts";
import { S1Server } from "./s1-support.ts";
import { startPool } from "./sandboxes.ts";
import { type RawReply, startToolset, startToolsetServer, type ToolsetClient } from "./toolset-program.ts";
import { environment } from "./x-support.ts";

export interface Profile {
  /** Without warm kernels. */
  start(args: string[], atEnd: AtEnd): Promise<ToolsetClient>;
  /** The arguments for a cell, in an existing or a new session. */
  cell(code: string, session: string | undefined, limitS?: number): Record<string, unknown>;
  tool: string;
  /** The id of the session that a reply belongs to; absent if the toolset has no sessions. */
  session?(reply: RawReply): string;
  /** Creates a session, if the first cell does not. */
  begin?(client: ToolsetClient): Promise<string>;
  /** The option for the time limit, if a call has none. */
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

export const profiles: Record<string, Profile> = {
  "mcp-python-code-interpreter": {
    start: (args, atEnd) =>
      startToolsetServer("mcp-python-code-interpreter", {
        args: ["--env", environment, "--port", "0", ...args],
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
    begin: async (client) => String((await client.call("create_session")).structuredContent?.session_id),
    cell: (code, session) => ({ code, session_id: session }),
    session: ({ structuredContent }) => String(structuredContent?.session_id),
  },
  "ipython-mcp": {
    start: (args, atEnd) => startToolset("ipython-mcp", { args: ["--env", environment, ...args], atEnd }),
    tool: "execute",
    cell: (code, session = "mine", limitS) => ({ session, code, ...(limitS ? { timeout_s: limitS } : {}) }),
    session: () => "mine",
  },
  "code-interpreter-lb": {
    start: async (args, atEnd) => {
      const { urls, env } = await startPool(String(await freePort()), ["--kernel", "wasm"], atEnd);
      return startToolset("code-interpreter-lb", {
        args: [...urls.flatMap((url) => ["--pool-url", url]), ...args],
        env,
        atEnd,
      });
    },
    tool: "execute_python",
    cell: (code, session_id = "mine", limitS) => ({ session_id, code, ...(limitS ? { timeout: limitS } : {}) }),
    session: () => "mine",
  },
  "mcp-run-python": {
    start: (args, atEnd) => startToolset("mcp-run-python", { args: [...args, "stdio"], atEnd }),
    tool: "run_python_code",
    cell: (python_code) => ({ python_code }),
    limit: "--timeout",
  },
};

/** `describe` for cases of a toolset, on a machine that meets the requirements of toolsets. */
export function describeProfile(name: string, suite: () => void): void {
  describeWith("localKernels", `--toolset ${name}`, () =>
    describeWith("jupyterServer", "with a Jupyter server", suite),
  );
}
