/** How a shell ended, as a sentence. */
export function shellEnd({ code, signal }: { code: number | null; signal?: string | null | undefined }): string {
  if (signal) return `The shell was killed by ${signal}.`;
  return `The shell ended with exit code ${code}, by \`exit\` or under \`set -e\`.`;
}
