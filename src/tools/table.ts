/** Longer cells are truncated: a table is for finding a row, not for reading a value. */
const MAX_CELL_CHARS = 100;

/** Aligned columns, two spaces apart. */
export function table(head: string[], rows: string[][], { maxCellChars = MAX_CELL_CHARS } = {}): string {
  const lines = [head, ...rows].map((row) => row.map((cell) => oneLine(cell, maxCellChars)));
  const widths = head.map((_, column) =>
    Math.min(MAX_CELL_CHARS, Math.max(...lines.map((line) => line[column]?.length ?? 0))),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function oneLine(text: string, maxChars: number): string {
  const line = text.replace(/[\r\n\t]+/g, " ");
  return line.length > maxChars ? `${line.slice(0, maxChars - 1)}…` : line;
}
