/** Python's `str.splitlines`: more line separators than `\n`, and no empty last line. */
export function pythonLines(text: string): string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these end lines in Python
  const lines = text.split(/\r\n|[\n\r\u000b\f\u001c-\u001e\u0085\u2028\u2029]/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}
