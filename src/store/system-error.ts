import { CellwrightError } from "../errors.ts";

/** The system's error code, such as ENOENT; undefined for errors that do not come from a system call. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "syscall" in error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Reports a full disk as `storage_full`. */
export async function writing<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = systemCode(error);
    if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
    throw new CellwrightError("storage_full", `The disk is full: ${what} could not be written.`, { cause: error });
  }
}

/** Undefined if the file does not exist. */
export async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
