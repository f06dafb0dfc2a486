import type { Toolset } from "../../mcp/toolset.ts";
import { fileTools } from "./jupyter-interpreter-04-files.ts";
import { sessionTools } from "./jupyter-interpreter-04-sessions.ts";
import { restoreAll } from "./jupyter-interpreter-session.ts";
import { commandLine, defaults } from "./jupyter-interpreter-start.ts";

export const toolset: Toolset = {
  name: "jupyter-interpreter-mcp@0.4",
  server: {
    name: "Code Interpreter",
    version: "0.4.0",
    instructions: `Begin with create_session, and pass its session_id to every other tool. Code runs as in a notebook: what was
defined before is still there. Python and shell commands (ls, pwd, cat file.txt) are both understood.
`,
  },
  tools: [...sessionTools, ...fileTools],
  unknownTool: (name) => `Unknown tool: ${name}`,
  onStart: async (context) => {
    if (context.options.restoreSessionsOnStartup) await restoreAll(context);
  },
  commandLine: {
    ...commandLine,
    environment(env, cwd) {
      const { SESSIONS_DIR: folder, ...others } = commandLine.environment(env, cwd);
      return { ...(folder ? { CELLWRIGHT_SESSIONS_DIR: folder } : {}), ...others };
    },
    defaults: { ...defaults, cellsFile: "inside", sessionIds: "uuid", deleteExpired: true },
    // Where sessions live is a folder of the server there.
    settle: (options) => ({
      ...options,
      notebooksFolder: options.sessionsDir ?? "/home/jovyan/sessions",
      sessionsDir: undefined,
    }),
    version: "jupyter-interpreter-mcp 0.4.0",
  },
};
