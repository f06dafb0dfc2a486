/**
 * Text as a terminal would show it, where `\r` returns to the start of the line: of a progress bar, the last state is
 * left. A carriage return at the very end is kept, since it affects the text that follows.
 */
export function resolveCarriageReturns(text: string): string {
  const pending = text.endsWith("\r") ? "\r" : "";
  return (
    text
      .slice(0, text.length - pending.length)
      .replaceAll("\r\n", "\n")
      .split("\n")
      .map(overwriteLine)
      .join("\n") + pending
  );
}

function overwriteLine(line: string): string {
  if (!line.includes("\r")) return line;
  let shown = "";
  for (const part of line.split("\r")) {
    // Programs that use escape codes clear or color the whole line. Counting columns would mix two states.
    const replaces = part.includes("\u001b[") || part.length >= shown.length;
    shown = replaces ? part : part + shown.slice(part.length);
  }
  return shown;
}
