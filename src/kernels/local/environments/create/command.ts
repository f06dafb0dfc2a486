import { spawn } from "node:child_process";
import { parse } from "node:path";
import type { Readable } from "node:stream";
import { exitOf, lastLine } from "../../../../process/ending.ts";
import { hasGroups, killGroup } from "../../../../process/kill.ts";

/** Lines kept of both streams, to explain a failure. */
const KEPT_LINES = 200;
/** Limit of the kept stdout. conda's list and pip's help are far shorter. */
const MAX_STDOUT_CHARS = 1024 * 1024;
/** Buffer limit for an unfinished line. */
const MAX_LINE_CHARS = 2 * 1024 * 1024;

/** A program and its arguments. */
export type CommandLine = [string, ...string[]];

export interface CommandOptions {
  env: NodeJS.ProcessEnv;
  cwd?: string;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** Called with each line of both streams. */
  onLine?: (line: string) => void;
}

export interface CommandResult {
  ok: boolean;
  /** If not ok: the last line of output, or the exit status. */
  failure: string;
  /** The first part of stdout. */
  stdout: string;
}

/** Runs a program to completion in its own process group. Rejects only when aborted. */
export async function runCommand(file: string, args: string[], options: CommandOptions): Promise<CommandResult> {
  // Not the server's working directory: a program may look for modules and settings in it.
  const { env, cwd = parse(process.execPath).root, timeoutMs, signal, onLine } = options;
  signal?.throwIfAborted();
  const child = spawn(file, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"], detached: hasGroups });
  const end = () => killGroup(child);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    end();
  }, timeoutMs);
  signal?.addEventListener("abort", end);

  let stdout = "";
  const said: string[] = [];
  const hear = (line: string) => {
    said.push(line);
    if (said.length > KEPT_LINES) said.shift();
    onLine?.(line);
  };
  eachLine(child.stdout, hear);
  eachLine(child.stderr, hear);
  child.stdout.on("data", (text: string) => {
    stdout += text.slice(0, MAX_STDOUT_CHARS - stdout.length);
  });

  try {
    const exit = await exitOf(child);
    signal?.throwIfAborted();
    return {
      ok: !timedOut && exit === "exit 0",
      failure: timedOut ? `it did not end within ${timeoutMs / 1000} s` : lastLine(said.join("\n")) || exit,
      stdout,
    };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
    end();
  }
}

function eachLine(stream: Readable, take: (line: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split(/\r?\n|\r/);
    rest = (lines.pop() ?? "").slice(0, MAX_LINE_CHARS);
    for (const line of lines) take(line);
  });
  stream.on("end", () => {
    if (rest) take(rest);
  });
  // The exit status explains a broken stream.
  stream.on("error", () => {});
}
