import { spawn } from "node:child_process";
import { parse } from "node:path";
import type { Log } from "../../../../log.ts";
import { LineSplitter } from "../../deno/lines.ts";

/** How much of a child's stderr is kept. */
const MAX_STDERR_CHARS = 8_000;
/** Longest line of a child: the packages of an image, or all failures. */
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** A Deno process that sends and receives lines of JSON. It runs only our files, so its lines are trusted. */
export interface DenoChild {
  send(line: object): void;
  kill(): void;
  /** Resolves when it has exited and all its lines were reported. Never rejects. */
  exited: Promise<DenoExit>;
}

export interface DenoExit {
  code: number | null;
  signal: string | null;
  stderr: string;
}

export interface DenoChildOptions<Report> {
  denoFile: string;
  args: string[];
  env: Record<string, string>;
  report: (report: Report) => void;
  log: Log;
}

export function startDeno<Report>({ denoFile, args, env, report, log }: DenoChildOptions<Report>): DenoChild {
  const child = spawn(denoFile, args, { cwd: parse(denoFile).root, env, stdio: ["pipe", "pipe", "pipe"] });
  const splitter = new LineSplitter(MAX_LINE_CHARS);
  let stderr = "";
  // Ignored: writing to a dead child fails, and its exit is reported anyway.
  child.stdin.on("error", () => {});
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
  });
  child.stdout.on("data", (chunk: Uint8Array) => {
    try {
      for (const line of splitter.push(chunk)) report(JSON.parse(line));
    } catch (error) {
      stderr += `\n${error}`;
      child.kill("SIGKILL");
    }
  });
  return {
    send: (line) => void child.stdin.write(`${JSON.stringify(line)}\n`),
    kill: () => void child.kill("SIGKILL"),
    exited: new Promise((resolve) => {
      child.once("close", (code, signal) => {
        if (stderr) log.debug(`the installer's stderr: ${stderr}`);
        resolve({ code, signal, stderr });
      });
      child.once("error", (error) => resolve({ code: null, signal: null, stderr: error.message }));
    }),
  };
}
