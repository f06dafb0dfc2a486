import { randomUUID } from "node:crypto";
import { defineToolset } from "../toolset.ts";
import { cellsFileGuest } from "./cells-file.ts";
import { fileTools } from "./files-04.ts";
import { restoreAll } from "./session.ts";
import { sessionTools } from "./sessions-04.ts";
import { commandLine, defaults, environment as environmentOf, pythonCommandLine, urlNames } from "./start.ts";
import { ForgottenSessions, options } from "./state-04.ts";

const usage = `usage: jupyter-interpreter-mcp [-h] [--jupyter-base-url JUPYTER_BASE_URL]
                               [--jupyter-token JUPYTER_TOKEN]
                               [--sessions-dir SESSIONS_DIR]
                               [--jupyter-root JUPYTER_ROOT]
                               [--session-ttl SESSION_TTL]
                               [--restore-sessions-on-startup]
                               [--allowed-dir PATH] [--allow-all] [--version]`;

const variables = ["SESSIONS_DIR", "JUPYTER_ROOT", "SESSION_TTL", "RESTORE_SESSIONS_ON_STARTUP", "ALLOWED_UPLOAD_DIRS"];

/** Translates lists and switches to the native format. */
export function environment(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const {
    SESSIONS_DIR: folder,
    ALLOWED_UPLOAD_DIRS: dirs = "",
    RESTORE_SESSIONS_ON_STARTUP: restore = "",
    SESSION_TTL: lifetime,
    ...others
  } = environmentOf(variables, env, cwd);
  const allowed = dirs.split(":").flatMap((dir) => dir.trim() || []);
  return {
    ...(folder ? { CELLWRIGHT_SESSIONS_DIR: folder } : {}),
    ...(allowed.length > 0 ? { CELLWRIGHT_ALLOWED_DIR: allowed.join(",") } : {}),
    // Any other value means no.
    ...(/^\s*(1|true|yes|on)\s*$/i.test(restore) ? { RESTORE_SESSIONS_ON_STARTUP: "true" } : {}),
    // A negative value means forever, like 0.
    ...(lifetime === undefined ? {} : { SESSION_TTL: Number(lifetime) < 0 ? "0" : lifetime }),
    ...others,
  };
}

export const toolset = defineToolset({
  name: "jupyter-interpreter-mcp@0.4",
  options,
  create(own) {
    const state = { own, forgotten: new ForgottenSessions() };
    return {
      server: {
        name: "Code Interpreter",
        version: "0.4.0",
        instructions: `Call create_session first, and pass its session_id to every other tool. Code runs as in a notebook: variables
persist between calls. Python and shell commands (ls, pwd, cat file.txt) both work.
`,
      },
      tools: [...sessionTools(state), ...fileTools(state)],
      unknownTool: (name) => `Unknown tool: ${name}`,
      guest: () => ({
        ...cellsFileGuest(({ workspace }) => ({ workspace, path: "history.txt" })),
        cellOptions: { commands: true },
        newSessionId: () => randomUUID(),
        forgetsIdleSessions: true,
        sessionForgotten: (record) => state.forgotten.add(record),
      }),
      onStart: async (context) => {
        if (own.restoreSessionsOnStartup) await restoreAll({ ...context, ...state });
      },
    };
  },
  commandLine: {
    ...commandLine,
    python: pythonCommandLine(usage, [
      { names: ["--sessions-dir"], value: "text" },
      { names: ["--jupyter-root"], value: "text" },
      { names: ["--session-ttl"], value: "float" },
      { names: ["--restore-sessions-on-startup"] },
      { names: ["--allowed-dir"], value: "text" },
      { names: ["--allow-all"] },
    ]),
    aliases: { jupyterUrl: urlNames, sessionTtl: { env: ["SESSION_TTL"] } },
    environment,
    defaults,
    settle: (options, { sessionsDir }) => ({ ...options, notebooksFolder: sessionsDir }),
    version: "jupyter-interpreter-mcp 0.4.0",
  },
});
