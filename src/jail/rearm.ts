import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { otherNamespaces } from "./jail-mounts.ts";
import { idOf } from "./placeholders.ts";

const run = promisify(execFile);

/** A Python of the system's: what it runs must not be within reach of code. */
const PYTHON = "/usr/bin/python3";
const script = fileURLToPath(new URL("./host/rearm.py", import.meta.url));
/** Longest that a few mounts may take on a busy machine. */
const TIMEOUT_MS = 10_000;
/** What is there may change again while it is mounted. */
const ATTEMPTS = 3;

export interface Rearming {
  root: string;
  /** Relative paths whose mounts are gone, because something outside has replaced what they were on. */
  changed: string[];
  /** The others: a namespace in which these are mount points is a jail of ours, and not somebody's container. */
  unchanged: string[];
  /** How many jails are known to show the folder: one that cannot be found cannot be protected. */
  jails: number;
}

/** Mounts them read-only again in each jail that shows the folder. False: in one of them that was not possible. */
export async function rearm({ root, changed, unchanged, jails: known }: Rearming): Promise<boolean> {
  if (changed.length === 0) return true;
  const rootId = idOf(root);
  // Whether there is a repository differs from one jail to the next.
  const marks = unchanged.filter((path) => !path.includes("/") && path !== ".git" && path !== "HEAD");
  const isOurs = (points: Set<string>, point: string) =>
    marks.filter((path) => points.has(`${point}/${path}`)).length > marks.length / 2;
  const jails = [...otherNamespaces()].flatMap(({ pid, points, idAt }) =>
    [...points].filter((at) => isOurs(points, at) && idAt(at) === rootId).map((at) => ({ pid, at, points, root })),
  );
  if (new Set(jails.map(({ pid }) => pid)).size < known) return false;
  const done = await Promise.all(jails.map((jail) => mountAgain(jail, changed)));
  return done.every((isDone) => isDone);
}

interface RunningJail {
  pid: number;
  points: Set<string>;
  root: string;
  /** Where it sees the folder. */
  at: string;
}

async function mountAgain(jail: RunningJail, changed: string[]): Promise<boolean> {
  const above = [...new Set(changed.filter((path) => path.includes("/")).map((path) => dirname(path)))];
  const pins = above.filter((path) => !jail.points.has(`${jail.at}/${path}`));
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    if ((await mount(jail, "pin", pins)) && (await mount(jail, "read-only", changed))) return true;
  }
  // A jail that has ended meanwhile needs none.
  return !isThere(jail.pid);
}

async function mount({ pid, at, root }: RunningJail, how: "pin" | "read-only", paths: string[]): Promise<boolean> {
  if (paths.length === 0) return true;
  const args = ["-I", script, String(pid), how, ...paths.map((path) => `${at}/${path}`)];
  const { stdout } = await run(PYTHON, args, { cwd: "/", env: {}, timeout: TIMEOUT_MS }).catch(() => ({ stdout: "" }));
  const mounted = stdout.trim().split("\n");
  return paths.every((path, index) => idOf(`${root}/${path}`)?.startsWith(`${mounted[index]}:`));
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
