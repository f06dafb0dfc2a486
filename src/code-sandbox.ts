import { fileURLToPath } from "node:url";
import { createApp } from "./app.ts";
import { LOCAL_OWNER } from "./engine/sessions/sessions.ts";
import { CellwrightError } from "./errors.ts";
import type { Json } from "./execution.ts";
import { defaultOptions, type Options } from "./options/options.ts";
import { OneUse } from "./toolsets/mcp-run-python/one-use.ts";
import { jsonStyle, resultText } from "./toolsets/mcp-run-python/result.ts";
import { runScript, type ScriptRequest } from "./toolsets/mcp-run-python/script.ts";
import { globalsOf, toolset } from "./toolsets/mcp-run-python/toolset.ts";

/** mcp-run-python's programming interface: each program runs in a fresh interpreter. */
export interface CodeSandbox {
  eval(code: string, globals?: Record<string, Json>, options?: { signal?: AbortSignal }): Promise<SandboxResult>;
  /** Stops all interpreters. */
  dispose(): Promise<void>;
}

export type SandboxResult =
  | { status: "success"; output: string[]; return_value: Json }
  | { status: "install-error" | "run-error"; output: string[]; error: string };

export interface CodeSandboxOptions {
  /** Packages to install for every program. */
  dependencies?: string[];
  /** Receives what programs print (`info`, `warning`) and the progress of installations (`debug`, `error`). */
  onLog?: ScriptRequest["onMessage"];
  /** Needs local kernels: Python in WebAssembly has no network. */
  allowNetworking?: boolean;
  /** Other options, as on the command line. */
  settings?: Partial<Options>;
}

export async function codeSandbox(options: CodeSandboxOptions = {}): Promise<CodeSandbox> {
  const settings = settingsOf(options);
  const { sessions, dispose } = await createApp(settings);
  sessions.warm();
  const oneUse = new OneUse();
  return {
    async eval(code, globals = {}, { signal = new AbortController().signal } = {}) {
      const result = await oneUse.run({ sessions, options: settings, owner: LOCAL_OWNER }, signal, (session) =>
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

/** The command with which an MCP client starts the server. */
export interface PreparedServer {
  command: string;
  args: string[];
}

/** Installs packages in advance, so that a server started with these arguments has them. Throws if that fails. */
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
