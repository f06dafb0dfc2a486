import { fileURLToPath } from "node:url";
import { createApp } from "./app.ts";
import { CellwrightError } from "./errors.ts";
import type { Json } from "./execution.ts";
import { defaultOptions, type Options } from "./options.ts";
import { runScript, type ScriptRequest } from "./session/script.ts";
import { LOCAL_OWNER } from "./session/sessions.ts";
import { globalsOf, toolset } from "./tools/compat/mcp-run-python.ts";
import { jsonStyle, resultText } from "./tools/compat/mcp-run-python-result.ts";

/** mcp-run-python's programming interface: programs one by one, each in a fresh interpreter. */
export interface CodeSandbox {
  eval(code: string, globals?: Record<string, Json>, options?: { signal?: AbortSignal }): Promise<SandboxResult>;
  /** Ends all that was started. */
  dispose(): Promise<void>;
}

export type SandboxResult =
  | { status: "success"; output: string[]; return_value: Json }
  | { status: "install-error" | "run-error"; output: string[]; error: string };

export interface CodeSandboxOptions {
  /** Packages that every program finds. */
  dependencies?: string[];
  /** Told what programs print (`info`, `warning`), and how installing goes (`debug`, `error`). */
  onLog?: ScriptRequest["onMessage"];
  /** Needs local kernels: Python in WebAssembly has no network. */
  allowNetworking?: boolean;
  /** Other settings, as on the command line. */
  settings?: Partial<Options>;
}

export async function codeSandbox(options: CodeSandboxOptions = {}): Promise<CodeSandbox> {
  const settings = settingsOf(options);
  const { sessions, dispose } = await createApp(settings);
  sessions.warm();
  return {
    async eval(code, globals = {}, { signal = new AbortController().signal } = {}) {
      const result = await sessions.once(LOCAL_OWNER, signal, (session) =>
        runScript(session, {
          code,
          variables: globalsOf(globals),
          filename: "main.py",
          style: jsonStyle("json"),
          timeoutMs: settings.timeout,
          signal,
          onMessage: options.onLog ?? (() => {}),
        }),
      );
      return JSON.parse(resultText(result, "json")) as SandboxResult;
    },
    dispose,
  };
}

/** How an MCP client starts the server. */
export interface PreparedServer {
  command: string;
  args: string[];
}

/** Installs packages, so that the server that is started with these arguments has them at once. Throws if it cannot. */
export async function prepare(
  dependencies: string[] = [],
  { mode = "stdio", ...options }: Omit<CodeSandboxOptions, "dependencies"> & { mode?: string } = {},
): Promise<PreparedServer> {
  const sandbox = await codeSandbox({ ...options, dependencies });
  try {
    const result = await sandbox.eval("");
    if (result.status === "install-error") throw new CellwrightError("package_error", result.error.trimEnd());
  } finally {
    await sandbox.dispose();
  }
  const program = fileURLToPath(new URL("./main.js", import.meta.url));
  const dataDir = options.settings?.dataDir;
  const args = [program, "--toolset", toolset.name];
  if (dependencies.length > 0) args.push("--deps", dependencies.join(","));
  if (options.allowNetworking === false) args.push("--disable-networking");
  if (dataDir !== undefined) args.push("--data-dir", dataDir);
  return { command: process.execPath, args: [...args, mode] };
}

function settingsOf({ dependencies = [], allowNetworking, settings = {} }: CodeSandboxOptions): Options {
  const all = { ...defaultOptions(), ...toolset.commandLine.defaults, ...settings };
  if (allowNetworking && all.kernel === "wasm") {
    throw new CellwrightError("not_supported", "Python in WebAssembly has no network.", {
      hint: 'Use settings: { kernel: "local" } for programs that need it, or leave out allowNetworking.',
    });
  }
  const allowNet = allowNetworking === undefined ? all.allowNet : allowNetworking ? ["*"] : [];
  return { ...all, packages: [...all.packages, ...dependencies], allowNet };
}
