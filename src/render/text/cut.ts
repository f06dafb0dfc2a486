import { showCount } from "./amounts.ts";

/** Text at this position that was dropped before it reached the server. */
export interface Gap {
  at: number;
  chars: number;
  /** The URI of the full text, as far as it was kept. */
  full?: string;
}

export interface CutOptions {
  gaps?: Gap[];
  /** Share of the kept text that comes from the head. */
  headShare?: number;
  /** A clause that names the file with the full text: `all of it is in .outputs/x.txt`. */
  where?: string;
}

/** A cut moves to a line end within this distance. */
const LINE_REACH = 200;

/** Truncates a text to `maxChars`: its head, a mark that says how much is missing, and its tail. */
export function cutText(
  text: string,
  maxChars: number,
  { gaps = [], headShare = 0.5, where }: CutOptions = {},
): string {
  const whole = withGaps(text, gaps, where);
  if (whole.length <= maxChars) return whole;
  const missing = text.length + gaps.reduce((sum, gap) => sum + gap.chars, 0);
  const room = maxChars - mark(missing, where).length;
  if (room < 40) return maxChars > 0 ? `${sliceHead(text, maxChars - 1)}…` : "";
  let head = headEnd(text, Math.floor(room * headShare));
  let tail = tailStart(text, Math.max(head, text.length - (room - head)));
  // Gaps outside this cut need marks, too, which would exceed the limit: the cut grows to include them.
  for (const gap of gaps) {
    if (gap.at < head) head = headEnd(text, gap.at);
    if (gap.at > tail) tail = tailStart(text, gap.at);
  }
  const gone = tail - head + gaps.reduce((sum, gap) => sum + gap.chars, 0);
  return text.slice(0, head) + mark(gone, where) + text.slice(tail);
}

/** The mark for missing text, on a separate line. */
export function mark(chars: number, where?: string): string {
  return `\n[… ${showCount(chars)} characters left out${where ? `; ${where}` : ""} …]\n`;
}

/**
 * Fair shares of a budget: needs below an equal share are met in full, and the others divide the rest equally. The
 * result is in the order of `needs`.
 */
export function shareOut(needs: number[], total: number): number[] {
  const shares = needs.map(() => 0);
  let left = total;
  let waiting = needs.map((_, index) => index);
  while (waiting.length > 0) {
    const equal = Math.floor(left / waiting.length);
    const small = waiting.filter((index) => (needs[index] ?? 0) <= equal);
    if (small.length === 0) {
      for (const index of waiting) shares[index] = equal;
      break;
    }
    for (const index of small) {
      shares[index] = needs[index] ?? 0;
      left -= shares[index] ?? 0;
    }
    waiting = waiting.filter((index) => !small.includes(index));
  }
  return shares;
}

/** The head of a text, without splitting a surrogate pair. */
function sliceHead(text: string, chars: number): string {
  return text.slice(0, chars - (splitsCharacter(text, chars) ? 1 : 0));
}

function withGaps(text: string, gaps: Gap[], where?: string): string {
  let shown = "";
  let at = 0;
  for (const gap of gaps) {
    shown += text.slice(at, gap.at) + mark(gap.chars, where);
    at = gap.at;
  }
  return shown + text.slice(at);
}

function headEnd(text: string, at: number): number {
  const line = text.lastIndexOf("\n", at - 1);
  return at - line <= LINE_REACH && line > 0 ? line : at - (splitsCharacter(text, at) ? 1 : 0);
}

function tailStart(text: string, at: number): number {
  const line = text.indexOf("\n", at);
  return line >= 0 && line - at < LINE_REACH && line < text.length - 1
    ? line + 1
    : at + (splitsCharacter(text, at) ? 1 : 0);
}

function splitsCharacter(text: string, at: number): boolean {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(Math.max(0, at - 1), at + 1));
}
