import { CellwrightError } from "../errors.ts";

/** What the operating system answered, such as ENOENT; undefined for errors that are not its own. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "syscall" in error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Does something to the disk, and says so in our words when there is no room for it. */
export async function writing<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = systemCode(error);
    if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
    throw new CellwrightError("storage_full", `The disk is full: ${what} could not be written.`, { cause: error });
  }
}

/** Reads something that need not be there. */
export async function ifThere<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
