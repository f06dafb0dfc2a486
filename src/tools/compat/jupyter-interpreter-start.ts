import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import type { Refusal, ToolsetCommandLine } from "../../mcp/toolset.ts";
import { OptionError, type Options, parseEnvFile } from "../../options.ts";

/** How both versions are started. */
export const commandLine = {
  command: "stdio",
  environment,
  refuse,
} satisfies Partial<ToolsetCommandLine>;

/** What both versions do in another way than we: sessions stay for ever, and come back after a restart. */
export const defaults = {
  kernel: "jupyter",
  restore: "replay-all",
  shellLines: true,
  timeout: 300_000,
  sessionTtl: 0,
  keepDays: 3650,
  maxSessions: 10_000,
} satisfies Partial<Options>;

/** What may stand in a `.env`. Other names there are somebody else's. */
const variables = [
  "JUPYTER_BASE_URL",
  "JUPYTER_TOKEN",
  "NOTEBOOKS_FOLDER",
  "SESSIONS_DIR",
  "JUPYTER_ROOT",
  "SESSION_TTL",
  "RESTORE_SESSIONS_ON_STARTUP",
  "ALLOWED_UPLOAD_DIRS",
];

/** With what `.env` in the working directory says of variables that are not set, and lists as we write them. */
function environment(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const {
    ALLOWED_UPLOAD_DIRS: dirs = "",
    RESTORE_SESSIONS_ON_STARTUP: restore,
    ...others
  } = {
    ...fromFile(join(cwd, ".env")),
    ...env,
  };
  const allowed = dirs.split(":").flatMap((dir) => dir.trim() || []);
  return {
    ...(allowed.length > 0 ? { CELLWRIGHT_ALLOWED_DIR: allowed.join(",") } : {}),
    // Anything else means no.
    ...(/^\s*(1|true|yes|on)\s*$/i.test(restore ?? "") ? { RESTORE_SESSIONS_ON_STARTUP: "true" } : {}),
    ...others,
  };
}

function fromFile(path: string): Record<string, string> {
  let content: string;
  try {
    content = readFileSync(path, "utf8");
  } catch {
    return {};
  }
  const values = parseEnvFile(content);
  return Object.fromEntries(variables.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));
}

const ADVICE = "Please check your configuration and ensure Jupyter server is running.";

function refuse(problem: Parameters<NonNullable<ToolsetCommandLine["refuse"]>>[0]): Refusal | undefined {
  if ("error" in problem) return refuseFor(problem.error, problem.options);
  const { kernel, jupyterToken, jupyterTokenFile } = problem.options;
  if (kernel !== "jupyter" || jupyterToken || jupyterTokenFile) return undefined;
  const way = "(provide via --jupyter-token or environment variable)";
  return { message: `Invalid configuration: JUPYTER_TOKEN is required ${way}`, exitCode: 1 };
}

function refuseFor(error: Error, options: Options | undefined): Refusal | undefined {
  // What is wrong on the command line is told as everywhere.
  if (error instanceof OptionError && !error.message.startsWith("--")) {
    return { message: `Invalid configuration: ${error.message}`, exitCode: 1 };
  }
  if (!(error instanceof CellwrightError)) return undefined;
  if (error.code === "invalid_input") return { message: `Invalid configuration: ${error.message}`, exitCode: 1 };
  if (error.code !== "server_unreachable" && error.code !== "server_refused") return undefined;
  const url = (options?.jupyterUrl ?? []).map((each) => each.replace(/\/+$/, "")).join(", ");
  return { message: `Failed to connect to Jupyter server at ${url}: ${reasonOf(error, url)}\n${ADVICE}`, exitCode: 1 };
}

/** Our sentence about a server, as the original would have begun it. */
function reasonOf({ code, message }: CellwrightError, url: string): string {
  const status = /\((401|403)\)/.exec(message)?.[1];
  if (status) return `${status === "401" ? "Authentication" : "Authorization"} failed: ${status} ${message}`;
  if (code === "server_refused") return message;
  const why = message.slice(message.lastIndexOf(": ") + 2);
  if (why.includes("did not answer within")) return `Request to ${url} timed out after 30s: ${why}`;
  return `Cannot connect to Jupyter server at ${url}: ${why}`;
}
