/** Whether a system call failed with one of these codes, or with any code if none is given. */
export function failedWith(error: unknown, ...codes: string[]): error is NodeJS.ErrnoException {
  if (!(error instanceof Error && "syscall" in error)) return false;
  return codes.length === 0 || codes.includes((error as NodeJS.ErrnoException).code ?? "");
}
