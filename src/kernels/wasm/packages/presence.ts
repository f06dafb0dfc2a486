import { randomUUID } from "node:crypto";
import { readFile, readlink, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";

/** How often a process says that it is still there. */
const REFRESH_MS = 5_000;
/**
 * Silence after which a process is taken for dead that cannot be looked for (in another container), or whose number was
 * given out again. Several refreshes: a machine that builds can be busy.
 */
const SILENCE_MS = 60_000;

/** A file that says "somebody works here". It only saves work: what is built is safe without it. */
export interface Presence {
  end(): Promise<void>;
}

/** Undefined when somebody else is present, and alive. */
export async function announce(file: string): Promise<Presence | undefined> {
  const mine = JSON.stringify({ token: randomUUID(), pid: process.pid, place: await placeOfProcesses() });
  for (;;) {
    try {
      await writeFile(file, mine, { flag: "wx", mode: 0o600 });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (await isPresent(file)) return undefined;
      // Moved, not removed: of two that find the same dead one, the second finds nothing to move.
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
    // Empty: it is being written at this moment.
    if (text === "") return true;
    const { pid, place } = JSON.parse(text);
    return place !== (await placeOfProcesses()) || isAlive(pid);
  } catch {
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** Where a process number means what it means here: this machine and, on Linux, this container. */
async function placeOfProcesses(): Promise<string> {
  return `${hostname()} ${await readlink("/proc/self/ns/pid").catch(() => "")}`;
}
