/** mcp-run-python as its users start it, for the cases of S4. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { onTestFinished } from "vitest";
import { wheel } from "../kernels/wasm/packages/wheels.ts";
import { type AtEnd, programEnv, programPath } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { startToolset, startToolsetServer, type ToolsetClient, textOf } from "./toolset-program.ts";

export const NAME = "mcp-run-python";

/** The Python environment that local kernels are tested in; it has numpy, pandas and matplotlib. */
export const onLocal = ["--kernel", "local", "--env", dirname(dirname(testPython("managed")))];

/** Packages can only come from a folder. */
export const offline = ["--package-index", "http://127.0.0.1:9/simple", "--pyodide-base-url", "http://127.0.0.1:9/"];

/** The text of a reply if Pyodide's distribution is unreachable. */
export const outOfReach = /could not be reached/;

type Runs = ToolsetClient & { run(code: string, globals?: Record<string, unknown>): Promise<string> };

export async function startStdio(args: string[] = [], options: { atEnd?: AtEnd; env?: Record<string, string> } = {}) {
  return withRun(await startToolset(NAME, { ...options, args: [...args, "stdio"] }));
}

export async function startHttp(args: string[] = [], options: { atEnd?: AtEnd; mode?: string } = {}) {
  const { mode = "streamable-http", ...rest } = options;
  const server = await startToolsetServer(NAME, { ...rest, args: [...args, mode, "--port", "0"] });
  return { ...withRun(server), url: server.url };
}

function withRun(client: ToolsetClient): Runs {
  return {
    ...client,
    run: async (python_code, global_variables) =>
      textOf(await client.call("run_python_code", { python_code, ...(global_variables ? { global_variables } : {}) })),
  };
}

/** Runs a program until it exits, and returns all its output. */
export async function runProgram(args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [programPath, "--toolset", NAME, ...args], {
    env: programEnv({}),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

/** The part of numpy that the examples use. The real one is only in Pyodide's distribution. */
const NUMPY = `class ndarray:
    def __init__(self, values):
        self._values = list(values)
    def tolist(self):
        return self._values
    def __str__(self):
        return "[" + " ".join(map(str, self._values)) + "]"
ndarray.__module__ = "numpy"
array = ndarray
`;

/** A folder of wheels without dependencies, including micropip's own wheel, which installs them. */
export function wheelFolder(micropip: { file: string; data: Buffer }, atEnd: AtEnd = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-wheels-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  const wheels = [
    ...["alpha", "beta", "rich", "httpx", "pygments"].map((name) => wheel(name)),
    wheel("scikit-learn", { files: { "sklearn/__init__.py": "version = '1.0'\n" } }),
    wheel("numpy", { files: { "numpy/__init__.py": NUMPY } }),
  ];
  for (const { file, data } of [micropip, ...wheels]) writeFileSync(join(folder, file), data);
  return folder;
}

/** Log messages that the client receives. */
export function messagesOf(client: Client): { level: string; data: unknown }[] {
  const messages: { level: string; data: unknown }[] = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void messages.push(params));
  return messages;
}

/** The whole reply for a program that prints nothing. */
export const success = (value: string) => `<status>success</status>\n<return_value>\n${value}\n</return_value>`;
