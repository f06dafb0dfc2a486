/** Whether the operating system refused with one of these codes, or with any at all when none is named. */
export function failedWith(error: unknown, ...codes: string[]): error is NodeJS.ErrnoException {
  if (!(error instanceof Error && "syscall" in error)) return false;
  return codes.length === 0 || codes.includes((error as NodeJS.ErrnoException).code ?? "");
}
