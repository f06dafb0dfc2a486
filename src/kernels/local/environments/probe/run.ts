import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { parse } from "node:path";
import { fileURLToPath } from "node:url";
import type { Isolation, Jail, Mount } from "../../../../isolation/jail.ts";
import { mountsInPlace } from "../../../../isolation/mounts/in-place.ts";
import { systemMounts } from "../../../../isolation/mounts/system-mounts.ts";
import { killJailed, spawnJailed } from "../../../../isolation/spawn.ts";
import { exitOf, lastLine } from "../../../../process/ending.ts";
import { hasGroups, kill } from "../../../../process/kill.ts";

/** An interpreter answers in 50 ms, on a network disk in seconds. A hanging one must not block a session. */
export const PROBE_TIMEOUT_MS = 15_000;
/** An answer takes some ten kilobytes; a program that prints more than this is no interpreter. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_WORDS_CHARS = 2_000;

const script = readFileSync(fileURLToPath(new URL("probe.py", import.meta.url)));
/** Its start-up files, settings and packages are only read, never run. */
const flags = ["-E", "-s", "-S", "-"];
/** What a hostile interpreter can use until the timeout. */
const limits = { procsFiles: [], dataMb: 512, fileSizeMb: 16, processes: 64, openFiles: 256 };

export interface ProbeOutput {
  stdout: string;
  /** Why an answer may be missing: the last line of stderr, or the exit status. */
  failure: string;
  timedOut: boolean;
}

/** Runs the probe in a jail that shows only the system and these paths, all read-only. */
export async function probeInJail(python: string, paths: string[], isolation: Isolation): Promise<ProbeOutput> {
  const hasNamespaces = isolation.tier === "namespaces";
  const { readOnly, symlinks } = systemMounts({ network: false, hasNamespaces });
  const own = await mountsInPlace(paths);
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
  const jailed = spawnJailed(jail, [python, ...flags], { stdio: ["pipe", "pipe", "pipe"], limits });
  return outputOf(jailed.child, () => killJailed(jailed));
}

/** Runs the probe without a jail: only for vouched environments where jails do not work, or with --jail none. */
export function probeOpenly(python: string, env: NodeJS.ProcessEnv): Promise<ProbeOutput> {
  const kept = ["HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LD_LIBRARY_PATH"];
  const seen = Object.fromEntries(kept.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
  const child = spawn(python, flags, { cwd: parse(python).root, env: seen, stdio: "pipe", detached: hasGroups });
  // Also kills its children, which may outlive it.
  return outputOf(child, () => child.pid !== undefined && kill(hasGroups ? -child.pid : child.pid));
}

async function outputOf(child: ChildProcess, kill: () => void): Promise<ProbeOutput> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let words = "";
  const tooMuch = new Promise<string>((resolve) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_ANSWER_BYTES) chunks.push(chunk);
      else resolve("its output is too long");
    });
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-MAX_WORDS_CHARS);
  });
  // If it does not read its input, it has ended, and its exit is the result.
  child.stdin?.on("error", () => {});
  child.stdin?.end(script);
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<"timeout">((resolve) => {
    timer = setTimeout(() => resolve("timeout"), PROBE_TIMEOUT_MS);
  });
  const end = await Promise.race([exitOf(child), tooMuch, timeout]);
  clearTimeout(timer);
  kill();
  const timedOut = end === "timeout";
  const failure = timedOut ? `it did not end within ${PROBE_TIMEOUT_MS / 1000} s` : lastLine(words) || end;
  return { stdout: Buffer.concat(chunks).toString("utf8"), failure, timedOut };
}
