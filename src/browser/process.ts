import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { spawnJailed } from "../isolation/spawn.ts";
import type { Log } from "../log.ts";
import { killGroup } from "../process/kill.ts";
import { DevTools } from "./devtools.ts";
import { type BrowserSandbox, type Launch, pipes, planLaunch, type SandboxKind } from "./launch.ts";
import { treeMemoryMb } from "./memory.ts";

/** A browser starts in half a second, on a busy machine much slower. No reply waits this long. */
const START_MS = 60_000;
/** The end of stderr is kept to explain a crash. */
const MAX_STDERR_CHARS = 4_000;
/** Interval of memory checks while pages are open: in this time a page can fill some hundred megabytes. */
const MEMORY_CHECK_MS = 100;

export interface BrowserProcess {
  devtools: DevTools;
  sandbox: SandboxKind;
  /** The browser, or the bubblewrap around it. */
  pid: number;
  /** Resolves with the reason when the browser is gone. Never rejects. */
  closed: Promise<string>;
  /** The first reason wins. */
  kill(reason: string): void;
  readonly isGone: boolean;
  /** Memory is checked while figures are being drawn. */
  watch(): Watching;
}

export interface Watching {
  /** No other figure was being drawn at the same time. */
  isAlone(): boolean;
  stop(): void;
}

/** Starts a browser in this sandbox. Rejects with its error output if it fails. */
export async function startBrowser(
  program: string,
  { sandbox, memoryMb, log }: { sandbox: BrowserSandbox; memoryMb: number; log: Log },
): Promise<BrowserProcess> {
  const { kind } = sandbox;
  const folder = kind === "own" ? await mkdtemp(join(tmpdir(), "cellwright-browser-")) : undefined;
  try {
    const child = start(planLaunch(program, folder === undefined ? sandbox : { kind: "own", profileDir: folder }));
    const browser = follow(child, { sandbox: kind, folder, memoryMb, log });
    const timer = setTimeout(() => browser.kill("it did not start in time"), START_MS);
    try {
      await browser.devtools.call("Browser.getVersion");
    } catch {
      throw new Error(await browser.closed);
    } finally {
      clearTimeout(timer);
    }
    return browser;
  } catch (error) {
    if (folder) await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

function start({ command, env, jail }: Launch): ChildProcess {
  const stdio: ("ignore" | "pipe")[] = ["ignore", "ignore", "pipe", "pipe", "pipe"];
  if (jail) return spawnJailed(jail, command, { stdio }).child;
  const [program = "", ...args] = command;
  return spawn(program, args, { cwd: "/", env, stdio, detached: true });
}

function follow(
  child: ChildProcess,
  parts: {
    sandbox: SandboxKind;
    folder: string | undefined;
    memoryMb: number;
    log: Log;
  },
): BrowserProcess {
  const { sandbox, folder, memoryMb, log } = parts;
  let stderr = "";
  let reason: string | undefined;
  let isGone = false;
  const watching = new Set<{ others: boolean }>();
  const output = child.stdio[pipes.output] as Writable;
  const input = child.stdio[pipes.input] as Readable;
  const kill = (why: string) => {
    reason ??= why;
    killGroup(child);
  };
  const devtools = new DevTools({ output, input }, (why) => kill(`it was ended: ${why}`));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
  });
  for (const stream of child.stdio) stream?.on("error", () => {});
  const closed = new Promise<string>((resolve) => {
    const gone = (how: string) => {
      isGone = true;
      clearInterval(memoryCheck);
      const why = reason ?? how;
      devtools.close(`the browser is gone: ${why}`);
      // Without bubblewrap, Chromium's helpers outlive it for a moment and still write there.
      const again = { maxRetries: 10, retryDelay: 50 };
      const removing = folder ? rm(folder, { recursive: true, force: true, ...again }) : Promise.resolve();
      void removing.catch((error) => log.debug(`cannot remove a browser's folder: ${error}`)).then(() => resolve(why));
    };
    child.once("error", (error) => gone(error.message));
    child.once("exit", (code, signal) => gone(lastError(stderr) ?? `it ended with ${signal ?? code}`));
  });
  const memoryCheck = setInterval(() => {
    if (watching.size === 0 || child.pid === undefined) return;
    if ((treeMemoryMb(child.pid) ?? 0) > memoryMb) kill(`it took more than ${memoryMb} MB of memory`);
  }, MEMORY_CHECK_MS);
  memoryCheck.unref();
  return {
    devtools,
    sandbox,
    pid: child.pid ?? -1,
    closed,
    kill,
    get isGone() {
      return isGone;
    },
    watch() {
      const own = { others: watching.size > 0 };
      for (const one of watching) one.others = true;
      watching.add(own);
      return { isAlone: () => !own.others, stop: () => void watching.delete(own) };
    },
  };
}

/** An error on stderr explains more than the exit code; warnings about a missing desktop do not. */
function lastError(stderr: string): string | undefined {
  const lines = stderr.split("\n").filter((line) => /\S/.test(line) && !/dbus|DevTools listening/.test(line));
  return lines.findLast((line) => /FATAL|sandbox|bwrap|error/i.test(line))?.slice(0, 300);
}
