import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { parse } from "node:path";
import { fileURLToPath } from "node:url";
import type { Isolation, Jail, Mount } from "../../../jail/jail.ts";
import { spawnJailed } from "../../../jail/spawn.ts";
import { systemMounts } from "../../../jail/system-mounts.ts";

/** An interpreter answers in 50 ms; one on a network disk takes seconds. One that hangs must not hold up a session. */
export const PROBE_TIMEOUT_MS = 15_000;
/** An answer has some ten kilobytes; what says more than this is no interpreter. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_WORDS_CHARS = 2_000;
/** Something a process left behind may hold its output open; what it said itself is there by then. */
const LAST_WORDS_MS = 500;

const script = readFileSync(fileURLToPath(new URL("probe.py", import.meta.url)));
/** None of its start-up files, settings or packages run: they are only looked at. */
const flags = ["-E", "-s", "-S", "-"];
/** A hostile interpreter has these to itself for as long as it may take to answer. */
const limits = { procsFiles: [], dataMb: 512, fileSizeMb: 16, processes: 64, openFiles: 256 };

export interface ProbeOutput {
  stdout: string;
  /** Why there may be no answer: the last line of stderr, or how it ended. */
  failure: string;
  timedOut: boolean;
}

/** Runs the probe in a jail that shows the system, these paths read-only, and nothing else. */
export async function probeInJail(python: string, paths: string[], isolation: Isolation): Promise<ProbeOutput> {
  const isApart = isolation.tier === "namespaces";
  const { readOnly, symlinks } = systemMounts({ network: false, isApart });
  const own = (await Promise.all(paths.map(mountsOf))).flat();
  const isNew = ({ at }: Mount) => !readOnly.some((mount) => mount.at === at);
  const jail: Jail = {
    isolation,
    readOnly: [...readOnly, ...own.filter(isNew)],
    readWrite: [],
    symlinks,
    env: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8", HOME: "/tmp" },
    workingDir: "/",
    tmpMb: 16,
  };
  const { child, ids } = spawnJailed(jail, [python, ...flags], { stdio: ["pipe", "pipe", "pipe"], limits });
  const kill = () => {
    child.kill("SIGKILL");
    // Its launcher takes the jail with it, unless it had not come that far.
    void ids.then((found) => found && child.exitCode === null && killQuietly(found.ending));
  };
  return outputOf(child, kill);
}

/** Where there are no jails: only for what the operator vouches for, or with --jail none. */
export function probeOpenly(python: string, env: NodeJS.ProcessEnv): Promise<ProbeOutput> {
  const kept = ["HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LD_LIBRARY_PATH"];
  const seen = Object.fromEntries(kept.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
  const hasGroups = process.platform !== "win32";
  const child = spawn(python, flags, { cwd: parse(python).root, env: seen, stdio: "pipe", detached: hasGroups });
  return outputOf(child, () => child.pid !== undefined && killQuietly(hasGroups ? -child.pid : child.pid));
}

async function mountsOf(path: string): Promise<Mount[]> {
  const real = await realpath(path).catch(() => undefined);
  if (real === undefined) return [];
  return [...new Set([path, real])].map((at) => ({ from: real, at }));
}

function outputOf(child: ReturnType<typeof spawn>, kill: () => void): Promise<ProbeOutput> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let words = "";
    let timedOut = false;
    const end = (how: string) => {
      clearTimeout(timer);
      kill();
      const last = words
        .split("\n")
        .findLast((line) => line.trim() !== "")
        ?.trim();
      const failure = timedOut ? `it did not end within ${PROBE_TIMEOUT_MS / 1000} s` : last || how;
      resolve({ stdout: Buffer.concat(chunks).toString("utf8"), failure, timedOut });
    };
    const timer = setTimeout(() => {
      timedOut = true;
      end("");
    }, PROBE_TIMEOUT_MS);
    child.stdout?.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_ANSWER_BYTES) chunks.push(chunk);
      else end("it says more than an interpreter does");
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      words = (words + text).slice(-MAX_WORDS_CHARS);
    });
    child.once("error", (error) => end(error.message));
    child.once("exit", (code, signal) => {
      const how = signal ? `ended by ${signal}` : `exit ${code}`;
      const silence = setTimeout(end, LAST_WORDS_MS, how);
      child.once("close", () => {
        clearTimeout(silence);
        end(how);
      });
    });
    // One that does not read it has ended, and says so by its exit.
    child.stdin?.on("error", () => {});
    child.stdin?.end(script);
  });
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}
