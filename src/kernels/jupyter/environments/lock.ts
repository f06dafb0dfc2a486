import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { CellwrightError } from "../../../errors.ts";

/** A process number is given out again some day: a lock of that age is nobody's. */
const OLDEST_LOCK_MS = 60 * 60_000;

/** Runs `work` while no other process changes the same folder. Throws `env_error` at once when one does. */
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
  // Written but not yet filled: somebody has just taken it.
  if (Number.isNaN(pid)) return age < 5_000 ? 0 : undefined;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" ? pid : undefined;
  }
}
