import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, placeOfProcesses, startOf } from "../process-life.ts";
import { ifThere, systemCode } from "./system-error.ts";

/** Who claims: one store of one process. Two stores in one process are two claimants. */
export interface Claimant {
  token: string;
  pid: number;
  start?: string;
  place?: string;
}

interface Lock extends Claimant {
  released?: boolean;
  /** When the owner last said that it is there. */
  seenMs: number;
}

/** How often an owner says that it is there, for those who cannot see its process: in another container, say. */
export const REFRESH_MS = 15_000;
/** Silence after which they take it for dead: a few refreshes, so that a busy moment is not a death. */
const SILENCE_MS = 4 * REFRESH_MS;

export async function thisClaimant(): Promise<Claimant> {
  const [start, place] = await Promise.all([startOf(process.pid), placeOfProcesses()]);
  return { token: randomUUID(), pid: process.pid, start, place };
}

/**
 * Takes a session's folder for a claimant. False while another live one has it.
 *
 * Files `lock.1`, `lock.2`, … are generations, and the owner is whoever wrote the highest. A next generation is made with
 * `link`, which either puts the complete file there or finds that somebody was faster. The highest is never removed, only
 * outnumbered, so a slow process that decided on an old listing ends up below it and finds out when it looks again.
 */
export async function claim(folder: string, claimant: Claimant): Promise<boolean> {
  for (;;) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const top = Math.max(0, ...(await generations(folder)));
    if (top > 0) {
      const lock = await readLock(folder, top);
      if (!lock) continue;
      if (lock.token === claimant.token && !lock.released) return true;
      if (await isHeld(lock, claimant)) return false;
    }
    const mine = top + 1;
    if (!(await create(folder, mine, claimant))) continue;
    const now = await generations(folder);
    if (Math.max(...now) > mine) {
      await rm(lockPath(folder, mine), { force: true });
      continue;
    }
    for (const older of now) if (older < mine) await rm(lockPath(folder, older), { force: true });
    return true;
  }
}

/** The other claimant that has the folder now. */
export async function holder(folder: string, claimant: Claimant): Promise<Claimant | undefined> {
  for (;;) {
    const top = Math.max(0, ...(await generations(folder)));
    if (top === 0) return undefined;
    const lock = await readLock(folder, top);
    if (!lock) continue;
    return lock.token !== claimant.token && (await isHeld(lock, claimant)) ? lock : undefined;
  }
}

/** Says that the claimant is still there. False when the folder is no longer its own. */
export async function refresh(folder: string, claimant: Claimant): Promise<boolean> {
  const top = Math.max(0, ...(await generations(folder)));
  const lock = top > 0 ? await readLock(folder, top) : undefined;
  if (lock?.token !== claimant.token) return false;
  const now = new Date();
  await utimes(lockPath(folder, top), now, now);
  return true;
}

/** Gives the folder up, if the claimant has it. The file stays, marked, so that its number is not used again. */
export async function release(folder: string, claimant: Claimant): Promise<void> {
  const top = Math.max(0, ...(await generations(folder)));
  const lock = top > 0 ? await readLock(folder, top) : undefined;
  if (!lock || lock.token !== claimant.token || lock.released) return;
  const temporary = await writeTemporary(folder, { ...claimant, released: true });
  await rename(temporary, lockPath(folder, top));
}

async function isHeld(lock: Lock, claimant: Claimant): Promise<boolean> {
  if (lock.released) return false;
  if (lock.place !== claimant.place) return Date.now() - lock.seenMs < SILENCE_MS;
  return isAlive(lock.pid, lock.start);
}

async function generations(folder: string): Promise<number[]> {
  const names = (await ifThere(readdir(folder))) ?? [];
  return names.flatMap((name) => /^lock\.([1-9]\d{0,14})$/.exec(name)?.[1] ?? []).map(Number);
}

/** Undefined when it was outnumbered and removed meanwhile. */
async function readLock(folder: string, generation: number): Promise<Lock | undefined> {
  const path = lockPath(folder, generation);
  const [text, stats] = await Promise.all([ifThere(readFile(path, "utf8")), ifThere(stat(path))]);
  if (text === undefined || !stats) return undefined;
  try {
    return { ...JSON.parse(text), seenMs: stats.mtimeMs };
  } catch {
    // Only a power cut leaves an incomplete file here, and nobody who was alive before it still is.
    return { token: "", pid: 0, released: true, seenMs: 0 };
  }
}

/** False if somebody else made it, or the whole folder was forgotten meanwhile. */
async function create(folder: string, generation: number, claimant: Claimant): Promise<boolean> {
  let temporary: string | undefined;
  try {
    temporary = await writeTemporary(folder, claimant);
    await link(temporary, lockPath(folder, generation));
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST" || systemCode(error) === "ENOENT") return false;
    throw error;
  } finally {
    if (temporary) await rm(temporary, { force: true });
  }
}

async function writeTemporary(folder: string, lock: Omit<Lock, "seenMs">): Promise<string> {
  const path = join(folder, `.lock-${randomUUID()}.tmp`);
  try {
    await writeFile(path, JSON.stringify(lock), { mode: 0o600, flag: "wx" });
    return path;
  } catch (error) {
    // A full disk leaves an empty file, and a folder that is there for its sake alone.
    await rm(path, { force: true });
    await rmdir(folder).catch(() => {});
    throw error;
  }
}

function lockPath(folder: string, generation: number): string {
  return join(folder, `lock.${generation}`);
}
