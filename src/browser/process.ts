import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { spawnJailed } from "../jail/spawn.ts";
import type { Log } from "../log.ts";
import { DevTools } from "./devtools.ts";
import { type BrowserWalls, type Launch, pipes, planLaunch, type Walls } from "./launch.ts";
import { treeMemoryMb } from "./memory.ts";

/** A browser starts in half a second; on a busy machine in many times that. No reply waits so long for it. */
const START_MS = 60_000;
/** What is kept of its stderr, for its last words. */
const MAX_STDERR_CHARS = 4_000;
/** While pages are open: in this time a page fills some hundred megabytes. */
const LOOK_MS = 100;

export interface BrowserProcess {
  devtools: DevTools;
  walls: Walls;
  /** The browser, or the bubblewrap around it. */
  pid: number;
  /** Resolves when it is gone, with the reason. Never rejects. */
  closed: Promise<string>;
  /** The first reason is the one that counts. */
  kill(reason: string): void;
  readonly isGone: boolean;
  /** While somebody draws, its memory is looked at. */
  watch(): Watching;
}

export interface Watching {
  /** Nobody else has drawn since. */
  isAlone(): boolean;
  stop(): void;
}

/** Starts a browser behind these walls. Rejects with what it said when it does not come up. */
export async function startBrowser(
  program: string,
  { around, memoryMb, log }: { around: BrowserWalls; memoryMb: number; log: Log },
): Promise<BrowserProcess> {
  const { walls } = around;
  const folder = walls === "own" ? await mkdtemp(join(tmpdir(), "cellwright-browser-")) : undefined;
  try {
    const child = start(planLaunch(program, folder === undefined ? around : { walls: "own", profileDir: folder }));
    const browser = follow(child, { walls, folder, memoryMb, log });
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
    walls: Walls;
    folder: string | undefined;
    memoryMb: number;
    log: Log;
  },
): BrowserProcess {
  const { walls, folder, memoryMb, log } = parts;
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
  // A page that asks or warns would wait for a person.
  devtools.onEvent = (method, sessionId) => {
    if (method !== "Page.javascriptDialogOpening") return;
    devtools.call("Page.handleJavaScriptDialog", { accept: false }, sessionId).catch(() => {});
  };
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
  });
  for (const stream of child.stdio) stream?.on("error", () => {});
  const closed = new Promise<string>((resolve) => {
    const gone = (how: string) => {
      isGone = true;
      clearInterval(look);
      const why = reason ?? how;
      devtools.close(`the browser is gone: ${why}`);
      // Without bubblewrap the helpers of Chromium outlive it for a moment and still write there.
      const again = { maxRetries: 10, retryDelay: 50 };
      const removing = folder ? rm(folder, { recursive: true, force: true, ...again }) : Promise.resolve();
      void removing.catch((error) => log.debug(`a browser's folder stays behind: ${error}`)).then(() => resolve(why));
    };
    child.once("error", (error) => gone(error.message));
    child.once("exit", (code, signal) => gone(lastWords(stderr) ?? `it ended with ${signal ?? code}`));
  });
  const look = setInterval(() => {
    if (watching.size === 0 || child.pid === undefined) return;
    if ((treeMemoryMb(child.pid) ?? 0) > memoryMb) kill(`it took more than ${memoryMb} MB of memory`);
  }, LOOK_MS);
  look.unref();
  return {
    devtools,
    walls,
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

/** With bubblewrap goes all that is in its jail; before that stands, its children are in its process group. */
function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

/** What it said is worth more than its exit code; complaints about a missing desktop are not. */
function lastWords(stderr: string): string | undefined {
  const lines = stderr.split("\n").filter((line) => /\S/.test(line) && !/dbus|DevTools listening/.test(line));
  return lines.findLast((line) => /FATAL|sandbox|bwrap|error/i.test(line))?.slice(0, 300);
}
