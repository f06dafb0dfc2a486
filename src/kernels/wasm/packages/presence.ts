import { randomUUID } from "node:crypto";
import { readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { isAlive, pidNamespace, startTimeOf } from "../../../process/process-life.ts";

/** How often the owner renews its lease. */
const REFRESH_MS = 5_000;
/**
 * A lease that was not renewed for this long has expired. Needed for owners in another container, which cannot be
 * checked, and for reused pids. Several renewals long, because the machine may be busy.
 */
const SILENCE_MS = 60_000;

/** A lock file as a lease, renewed by its owner. It only avoids duplicate work: builds are safe without it. */
export interface Presence {
  end(): Promise<void>;
}

/** Undefined if another live process holds it. */
export async function announce(file: string): Promise<Presence | undefined> {
  const { pid } = process;
  const mine = JSON.stringify({
    token: randomUUID(),
    pid,
    start: await startTimeOf(pid),
    place: await pidNamespace(),
  });
  for (;;) {
    try {
      await writeFile(file, mine, { flag: "wx", mode: 0o600 });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (await isPresent(file)) return undefined;
      // Moved, not removed: if two processes find the same expired lease, only one of them can move it.
      const grave = `${file}.${randomUUID()}`;
      await rename(file, grave).then(
        () => rm(grave, { force: true }),
        () => {},
      );
    }
  }
  const refresh = setInterval(() => {
    const now = new Date();
    void utimes(file, now, now).catch(() => {});
  }, REFRESH_MS);
  refresh.unref();
  return {
    async end() {
      clearInterval(refresh);
      if ((await readFile(file, "utf8").catch(() => "")) === mine) await rm(file, { force: true });
    },
  };
}

export async function isPresent(file: string): Promise<boolean> {
  try {
    const [text, { mtimeMs }] = await Promise.all([readFile(file, "utf8"), stat(file)]);
    if (Date.now() - mtimeMs > SILENCE_MS) return false;
    // Empty: it is being written right now.
    if (text === "") return true;
    const { pid, start, place } = JSON.parse(text);
    return place !== (await pidNamespace()) || (await isAlive(pid, start));
  } catch {
    return false;
  }
}
