import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, pidNamespace, startTimeOf } from "../process/process-life.ts";
import { failedWith, ifExists } from "../system-error.ts";

/** The holder of a claim: one store in one process. Two stores in one process are two claimants. */
export interface Claimant {
  token: string;
  pid: number;
  start?: string;
  place?: string;
}

interface Lock extends Claimant {
  released?: boolean;
  /** When the owner last refreshed the lock. */
  seenMs: number;
}

/** How often an owner refreshes its lock, for processes that cannot see the owner's, such as in another container. */
export const REFRESH_MS = 15_000;
/** Lease time without a refresh: several refreshes, so that a busy owner does not lose its lock. */
const SILENCE_MS = 4 * REFRESH_MS;

export async function thisClaimant(): Promise<Claimant> {
  const [start, place] = await Promise.all([startTimeOf(process.pid), pidNamespace()]);
  return { token: randomUUID(), pid: process.pid, start, place };
}

/**
 * Claims a session's folder. False while another live claimant has it.
 *
 * Files `lock.1`, `lock.2`, … are generations; the owner is the writer of the highest. The next one is created with
 * `link`, which either creates the complete file or fails if another process was faster. The highest is never removed,
 * only superseded, so a slow process that acted on an old listing ends up below it and notices when it checks again.
 */
export async function claim(folder: string, claimant: Claimant): Promise<boolean> {
  for (;;) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { top, lock } = await newest(folder);
    if (top > 0) {
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

/** The other claimant that holds the folder. */
export async function holder(folder: string, claimant: Claimant): Promise<Claimant | undefined> {
  for (;;) {
    const { top, lock } = await newest(folder);
    if (top === 0) return undefined;
    if (!lock) continue;
    return lock.token !== claimant.token && (await isHeld(lock, claimant)) ? lock : undefined;
  }
}

/** Renews the lease. False if the claimant has lost the folder. */
export async function refresh(folder: string, claimant: Claimant): Promise<boolean> {
  const { top, lock } = await newest(folder);
  if (lock?.token !== claimant.token) return false;
  const now = new Date();
  await utimes(lockPath(folder, top), now, now);
  return true;
}

/** Releases the claim, if the claimant has it. The file stays, marked, so that its number is not reused. */
export async function release(folder: string, claimant: Claimant): Promise<void> {
  const { top, lock } = await newest(folder);
  if (!lock || lock.token !== claimant.token || lock.released) return;
  const temporary = await writeTemporary(folder, { ...claimant, released: true });
  await rename(temporary, lockPath(folder, top));
}

async function isHeld(lock: Lock, claimant: Claimant): Promise<boolean> {
  if (lock.released) return false;
  if (lock.place !== claimant.place) return Date.now() - lock.seenMs < SILENCE_MS;
  return isAlive(lock.pid, lock.start);
}

/** The highest generation, 0 without any, and its lock. */
async function newest(folder: string): Promise<{ top: number; lock: Lock | undefined }> {
  const top = Math.max(0, ...(await generations(folder)));
  return { top, lock: top > 0 ? await readLock(folder, top) : undefined };
}

async function generations(folder: string): Promise<number[]> {
  const names = (await ifExists(readdir(folder))) ?? [];
  return names.flatMap((name) => /^lock\.([1-9]\d{0,14})$/.exec(name)?.[1] ?? []).map(Number);
}

/** Undefined if it was superseded and removed meanwhile. */
async function readLock(folder: string, generation: number): Promise<Lock | undefined> {
  const path = lockPath(folder, generation);
  const [text, stats] = await Promise.all([ifExists(readFile(path, "utf8")), ifExists(stat(path))]);
  if (text === undefined || !stats) return undefined;
  try {
    return { ...JSON.parse(text), seenMs: stats.mtimeMs };
  } catch {
    // Only a power failure leaves an incomplete file, and no process from before it is still alive.
    return { token: "", pid: 0, released: true, seenMs: 0 };
  }
}

/** False if another process created it first, or the folder was deleted meanwhile. */
async function create(folder: string, generation: number, claimant: Claimant): Promise<boolean> {
  let temporary: string | undefined;
  try {
    temporary = await writeTemporary(folder, claimant);
    await link(temporary, lockPath(folder, generation));
    return true;
  } catch (error) {
    if (failedWith(error, "EEXIST", "ENOENT")) return false;
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
    // A full disk leaves an empty file, and maybe a folder created just for it.
    await rm(path, { force: true });
    await rmdir(folder).catch(() => {});
    throw error;
  }
}

function lockPath(folder: string, generation: number): string {
  return join(folder, `lock.${generation}`);
}
