/**
 * What a terminal would show of text in which `\r` goes back to the start of the line: a progress bar leaves its last
 * state. A carriage return at the very end is kept, since it acts on what comes next.
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
    // Who uses escape codes clears the line or colours all of it; counting columns would mix two states.
    const replaces = part.includes("\u001b[") || part.length >= shown.length;
    shown = replaces ? part : part + shown.slice(part.length);
  }
  return shown;
}
