import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isAlive } from "../../process/process-life.ts";
import { idOf } from "../protected/placeholders.ts";
import { otherNamespaces } from "./jail-mounts.ts";

const run = promisify(execFile);

/** The system's Python: code must not be able to change what runs here. */
const PYTHON = "/usr/bin/python3";
const script = fileURLToPath(new URL("../python/rearm.py", import.meta.url));
/** Timeout for a few mounts on a busy machine. */
const TIMEOUT_MS = 10_000;
/** The file may be replaced again while it is being mounted. */
const ATTEMPTS = 3;

export interface Rearming {
  root: string;
  /** Relative paths whose mounts are gone, because a host program replaced the files. */
  changed: string[];
  /** The others: they tell our jails, in which these are mount points, from containers. */
  unchanged: string[];
  /** How many jails have the folder mounted: if fewer are found, one is unprotected. */
  jails: number;
}

/** Mounts them read-only again in each jail that has the folder. False if that failed in one of them. */
export async function rearm({ root, changed, unchanged, jails: known }: Rearming): Promise<boolean> {
  if (changed.length === 0) return true;
  const rootId = idOf(root);
  // A repository may exist for one jail and not for another.
  const marks = unchanged.filter((path) => !path.includes("/") && path !== ".git" && path !== "HEAD");
  const isJail = (points: Set<string>, point: string) =>
    marks.filter((path) => points.has(`${point}/${path}`)).length > marks.length / 2;
  const jails = [...otherNamespaces()].flatMap(({ pid, points, idAt }) =>
    [...points].filter((at) => isJail(points, at) && idAt(at) === rootId).map((at) => ({ pid, at, points, root })),
  );
  if (new Set(jails.map(({ pid }) => pid)).size < known) return false;
  const done = await Promise.all(jails.map((jail) => mountAgain(jail, changed)));
  return done.every((isDone) => isDone);
}

interface RunningJail {
  pid: number;
  points: Set<string>;
  root: string;
  /** Path of the folder in the jail. */
  at: string;
}

async function mountAgain(jail: RunningJail, changed: string[]): Promise<boolean> {
  const above = [...new Set(changed.filter((path) => path.includes("/")).map((path) => dirname(path)))];
  const pins = above.filter((path) => !jail.points.has(`${jail.at}/${path}`));
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    if ((await mount(jail, "pin", pins)) && (await mount(jail, "read-only", changed))) return true;
  }
  // A jail that has ended meanwhile needs no protection.
  return !(await isAlive(jail.pid, undefined));
}

async function mount({ pid, at, root }: RunningJail, how: "pin" | "read-only", paths: string[]): Promise<boolean> {
  if (paths.length === 0) return true;
  const args = ["-I", script, String(pid), how, ...paths.map((path) => `${at}/${path}`)];
  const { stdout } = await run(PYTHON, args, { cwd: "/", env: {}, timeout: TIMEOUT_MS }).catch(() => ({ stdout: "" }));
  const mounted = stdout.trim().split("\n");
  return paths.every((path, index) => idOf(`${root}/${path}`)?.startsWith(`${mounted[index]}:`));
}
