import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { OptionError, type Options, parseEnvFile } from "../../options/options.ts";
import type { PythonCommandLine, Refusal } from "../argparse.ts";
import type { ToolsetCommandLine } from "../toolset.ts";

/** The command line of both versions. */
export const commandLine = {
  command: "stdio",
  refuse,
} satisfies Partial<ToolsetCommandLine>;

export const urlNames = { flags: ["--jupyter-base-url"], env: ["JUPYTER_BASE_URL"] };

/** The arguments of both versions, with one version's own in between. */
export function pythonCommandLine(usage: string, own: PythonCommandLine["options"]): PythonCommandLine {
  return {
    program: "jupyter-interpreter-mcp",
    usage,
    options: [
      { names: ["-h", "--help"], answers: true },
      { names: ["--jupyter-base-url"], value: "text" },
      { names: ["--jupyter-token"], value: "text" },
      ...own,
      { names: ["--version", "-v"], answers: true },
    ],
  };
}

/** Defaults of both versions: sessions never expire, and are restored after a restart. */
export const defaults = {
  kernel: "jupyter",
  restore: "replay-all",
  timeout: 300_000,
  sessionTtl: 0,
  keepDays: 3650,
  maxSessions: 10_000,
} satisfies Partial<Options>;

/** Adds unset variables from `.env` in the working directory. */
export function environment(variables: string[], env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const all = { ...fromFile(join(cwd, ".env"), ["JUPYTER_BASE_URL", "JUPYTER_TOKEN", ...variables]), ...env };
  // The original treats an empty value as an address without a host, not as the default.
  return all.JUPYTER_BASE_URL === "" ? { ...all, JUPYTER_BASE_URL: "/" } : all;
}

/** Other names in the file belong to other programs. */
function fromFile(path: string, variables: string[]): Record<string, string> {
  let content: string;
  try {
    content = readFileSync(path, "utf8");
  } catch {
    return {};
  }
  const values = parseEnvFile(content);
  return Object.fromEntries(variables.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));
}

const TOKEN_REQUIRED = "JUPYTER_TOKEN is required (provide via --jupyter-token or environment variable)";
const ADVICE = "Please check your configuration and ensure Jupyter server is running.";

function refuse(problem: Parameters<NonNullable<ToolsetCommandLine["refuse"]>>[0]): Refusal | undefined {
  if ("error" in problem) return refuseFor(problem.error, problem.options);
  const { kernel, jupyterToken } = problem.options;
  return kernel !== "jupyter" || jupyterToken ? undefined : invalid(TOKEN_REQUIRED);
}

function invalid(message: string): Refusal {
  return { message: `Invalid configuration: ${message}`, exitCode: 1 };
}

function refuseFor(error: Error, options: Options | undefined): Refusal | undefined {
  // An empty token on the command line overrides the environment.
  if (error instanceof OptionError && error.message.startsWith("--jupyter-token:")) return invalid(TOKEN_REQUIRED);
  if (error instanceof OptionError) return invalid(error.message);
  if (!(error instanceof CellwrightError)) return undefined;
  if (error.code === "invalid_input") return invalid(error.message);
  if (error.code !== "server_unreachable" && error.code !== "server_refused") return undefined;
  const url = (options?.jupyterUrl ?? []).map((each) => each.replace(/\/+$/, "")).join(", ");
  return { message: `Failed to connect to Jupyter server at ${url}: ${reasonOf(error, url)}\n${ADVICE}`, exitCode: 1 };
}

/** The reason why a server cannot be used, in the original's form. */
function reasonOf({ code, message }: CellwrightError, url: string): string {
  const status = /\((401|403)\)/.exec(message)?.[1];
  if (status) return `${status === "401" ? "Authentication" : "Authorization"} failed: ${status} ${message}`;
  if (code === "server_refused") return message;
  const why = message.slice(message.lastIndexOf(": ") + 2);
  if (why.includes("did not answer within")) return `Request to ${url} timed out after 30s: ${why}`;
  return `Cannot connect to Jupyter server at ${url}: ${why}`;
}
