import type { Output } from "../../execution.ts";
import { showCount } from "./amounts.ts";
import { plainText } from "./terminal.ts";

/** A longer traceback is a recursion: its head and its tail are enough. */
const HEAD_LINES = 20;
const TAIL_LINES = 40;
/** Limit of head and of tail: a message may hold a whole file. */
const SIDE_CHARS = 200_000;

/** An exception as text; its last line is the message. */
export function tracebackText({ name, message, traceback }: Extract<Output, { type: "error" }>): string {
  const text = plainText(ends(traceback.join("\n"))).trimEnd();
  const summary = plainText(ends(message === "" ? name : `${name}: ${message}`)).trimEnd();
  const firstLine = summary.split("\n", 1)[0] ?? "";
  // The message of a SyntaxError includes the location, which its traceback shows on separate lines.
  const isTold = text.includes(firstLine) || text.endsWith(firstLine.replace(/ \([^()]*, line \d+\)$/, ""));
  const whole = isTold ? text : `${text}\n${summary}`.trimStart();
  const lines = whole.split("\n");
  if (lines.length <= HEAD_LINES + TAIL_LINES) return `${whole}\n`;
  const left = lines.length - HEAD_LINES - TAIL_LINES;
  const mark = `[… ${showCount(left)} lines of the traceback left out …]`;
  return `${[...lines.slice(0, HEAD_LINES), mark, ...lines.slice(-TAIL_LINES)].join("\n")}\n`;
}

function ends(text: string): string {
  return text.length <= 2 * SIDE_CHARS ? text : `${text.slice(0, SIDE_CHARS)}\n[…]\n${text.slice(-SIDE_CHARS)}`;
}
