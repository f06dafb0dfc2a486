import { CellwrightError } from "./errors.ts";

/** Whether a system call failed with one of these codes, or with any code if none is given. */
export function failedWith(error: unknown, ...codes: string[]): error is NodeJS.ErrnoException {
  if (!(error instanceof Error && "syscall" in error)) return false;
  return codes.length === 0 || codes.includes((error as NodeJS.ErrnoException).code ?? "");
}

/** Undefined if the file does not exist. */
export async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (failedWith(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Reports a full disk as `storage_full`. */
export async function writing<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!failedWith(error, "ENOSPC", "EDQUOT")) throw error;
    throw new CellwrightError("storage_full", `The disk is full: ${what} could not be written.`, { cause: error });
  }
}
