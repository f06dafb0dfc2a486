import { type ChildProcess, spawn } from "node:child_process";
import { parse } from "node:path";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

/** Lines kept of what a command said, to tell why it failed. */
const KEPT_LINES = 200;
/** What a line is cut to: a probe's answer has some hundred kilobytes at most, an endless line has no meaning. */
const MAX_LINE_CHARS = 2 * 1024 * 1024;
/** Something a command left behind may hold its output open; what it said itself is there by then. */
const LAST_WORDS_MS = 500;

export interface CommandOptions {
  env: NodeJS.ProcessEnv;
  cwd?: string;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** Called with each line of both streams. True: that was all that is wanted of it, and it is ended. */
  onLine?: (line: string) => boolean | undefined;
}

export interface CommandResult {
  ok: boolean;
  timedOut: boolean;
  /** When not ok: what it said last, or how it ended. */
  failure: string;
  /** The last lines that it printed. */
  stdout: string;
}

/** Runs a program to its end, with what it starts in one process group. Rejects only when aborted. */
export async function runCommand(file: string, args: string[], options: CommandOptions): Promise<CommandResult> {
  // Not where this program was started: a helper may look for modules and settings in its working directory.
  const { env, cwd = parse(process.execPath).root, timeoutMs, signal, onLine } = options;
  signal?.throwIfAborted();
  const child = spawn(file, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"], detached: hasGroups });
  let ending: "timeout" | "answered" | "aborted" | undefined;
  const end = (why: typeof ending) => {
    ending ??= why;
    killGroup(child);
  };
  const timer = setTimeout(() => end("timeout"), timeoutMs);
  const abort = () => end("aborted");
  signal?.addEventListener("abort", abort);

  const stdout: string[] = [];
  const said: string[] = [];
  const hear = (line: string, ...kept: string[][]) => {
    for (const lines of kept) {
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
    }
    if (onLine?.(line)) end("answered");
  };
  eachLine(child.stdout, (line) => hear(line, stdout, said));
  eachLine(child.stderr, (line) => hear(line, said));

  try {
    const exit = await exitOf(child);
    signal?.throwIfAborted();
    const last = said.findLast((line) => line.trim() !== "")?.trim();
    return {
      ok: ending === "answered" || (ending === undefined && exit === "exit 0"),
      timedOut: ending === "timeout",
      failure: ending === "timeout" ? `it did not end within ${timeoutMs / 1000} s` : last || exit,
      stdout: stdout.join("\n"),
    };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    killGroup(child);
  }
}

const hasGroups = process.platform !== "win32";

/** Also after the command's own end, for what it left running. */
function killGroup(child: ChildProcess): void {
  try {
    if (hasGroups && child.pid) process.kill(-child.pid, "SIGKILL");
    else child.kill("SIGKILL");
  } catch {
    // There is nothing left of it.
  }
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      const exit = signal ? `ended by ${signal}` : `exit ${code}`;
      const silence = setTimeout(() => resolve(exit), LAST_WORDS_MS);
      child.once("close", () => {
        clearTimeout(silence);
        resolve(exit);
      });
    });
  });
}

function eachLine(stream: Readable, take: (line: string) => void): void {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  stream.on("data", (chunk: Buffer) => {
    const lines = (rest + decoder.write(chunk)).split(/\r?\n|\r/);
    rest = (lines.pop() ?? "").slice(0, MAX_LINE_CHARS);
    for (const line of lines) take(line);
  });
  stream.on("end", () => {
    if (rest) take(rest);
  });
  // A stream that breaks has ended; the exit says why.
  stream.on("error", () => {});
}
