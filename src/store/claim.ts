import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, startOf } from "./process-life.ts";
import { ifThere, systemCode } from "./system-error.ts";

/** Who claims: one store of one process. Two stores in one process are two claimants. */
export interface Claimant {
  token: string;
  pid: number;
  start?: string;
}

interface Lock extends Claimant {
  released?: boolean;
}

export async function thisClaimant(): Promise<Claimant> {
  return { token: randomUUID(), pid: process.pid, start: await startOf(process.pid) };
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
      if (await isHeld(lock)) return false;
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
    return lock.token !== claimant.token && (await isHeld(lock)) ? lock : undefined;
  }
}

/** Gives the folder up, if the claimant has it. The file stays, marked, so that its number is not used again. */
export async function release(folder: string, claimant: Claimant): Promise<void> {
  const top = Math.max(0, ...(await generations(folder)));
  const lock = top > 0 ? await readLock(folder, top) : undefined;
  if (!lock || lock.token !== claimant.token || lock.released) return;
  const temporary = await writeTemporary(folder, { ...lock, released: true });
  await rename(temporary, lockPath(folder, top));
}

async function isHeld(lock: Lock): Promise<boolean> {
  return !lock.released && (await isAlive(lock.pid, lock.start));
}

async function generations(folder: string): Promise<number[]> {
  const names = (await ifThere(readdir(folder))) ?? [];
  return names.flatMap((name) => /^lock\.([1-9]\d{0,14})$/.exec(name)?.[1] ?? []).map(Number);
}

/** Undefined when it was outnumbered and removed meanwhile. */
async function readLock(folder: string, generation: number): Promise<Lock | undefined> {
  const text = await ifThere(readFile(lockPath(folder, generation), "utf8"));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // Only a power cut leaves an incomplete file here, and nobody who was alive before it still is.
    return { token: "", pid: 0, released: true };
  }
}

/** False if somebody else made it, or the whole folder was forgotten meanwhile. */
async function create(folder: string, generation: number, lock: Lock): Promise<boolean> {
  let temporary: string | undefined;
  try {
    temporary = await writeTemporary(folder, lock);
    await link(temporary, lockPath(folder, generation));
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST" || systemCode(error) === "ENOENT") return false;
    throw error;
  } finally {
    if (temporary) await rm(temporary, { force: true });
  }
}

async function writeTemporary(folder: string, lock: Lock): Promise<string> {
  const path = join(folder, `.lock-${randomUUID()}.tmp`);
  await writeFile(path, JSON.stringify(lock), { mode: 0o600, flag: "wx" });
  return path;
}

function lockPath(folder: string, generation: number): string {
  return join(folder, `lock.${generation}`);
}
