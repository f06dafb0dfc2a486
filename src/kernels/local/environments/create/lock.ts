import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { CellwrightError } from "../../../../errors.ts";
import { isAlive } from "../../../../process/process-life.ts";

/** Pids are reused: an older lock is stale. */
const OLDEST_LOCK_MS = 60 * 60_000;

/** Runs `work` with a lock on the folder. Throws `env_error` at once if another process holds it. */
export async function withLock<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const file = `${folder}.lock`;
  const take = () => writeFile(file, String(process.pid), { flag: "wx" });
  try {
    await take();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const holder = await holderOf(file);
    if (holder !== undefined) {
      throw new CellwrightError("env_error", `Process ${holder} is changing ${folder} now.`, {
        hint: `Wait until it has ended. If there is no such process, remove ${file}.`,
      });
    }
    await rm(file, { force: true });
    await take();
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function holderOf(file: string): Promise<number | undefined> {
  const pid = Number.parseInt(await readFile(file, "utf8").catch(() => ""), 10);
  const age = Date.now() - ((await stat(file).catch(() => undefined))?.mtimeMs ?? 0);
  if (age > OLDEST_LOCK_MS) return undefined;
  // Created but not yet written: just taken.
  if (Number.isNaN(pid)) return age < 5_000 ? 0 : undefined;
  return (await isAlive(pid, undefined)) ? pid : undefined;
}
