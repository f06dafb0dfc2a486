/** How much an exception may say. `failure.py` keeps to this; user code can send what it likes, past Python. */
const MAX_NAME_CHARS = 1_000;
const MAX_MESSAGE_CHARS = 100_000;
const MAX_TRACEBACK_LINES = 401;
const MAX_LINE_CHARS = 10_000;
/** Long lines by the hundred would be 4 MB: then each is cut to its share, since the last ones say most. */
const MAX_TRACEBACK_CHARS = 1_000_000;

export interface ErrorTexts {
  name: string;
  message: string;
  traceback: string[];
}

/** An exception as user code may have forged it, cut to what a real one can say. Undefined: it is none. */
export function boundedError({ name, message, traceback }: Record<string, unknown>): ErrorTexts | undefined {
  if (typeof name !== "string" || typeof message !== "string" || !Array.isArray(traceback)) return undefined;
  const lines = traceback
    .slice(0, MAX_TRACEBACK_LINES)
    .filter((line) => typeof line === "string")
    .map((line) => beginning(line, MAX_LINE_CHARS));
  const isLong = lines.reduce((sum, line) => sum + line.length, 0) > MAX_TRACEBACK_CHARS;
  const lineChars = isLong ? Math.floor(MAX_TRACEBACK_CHARS / MAX_TRACEBACK_LINES) : MAX_LINE_CHARS;
  return {
    name: beginning(name, MAX_NAME_CHARS),
    message: beginning(message, MAX_MESSAGE_CHARS),
    traceback: lines.map((line) => beginning(line, lineChars)),
  };
}

/** A copy: V8's `slice` would keep all of the text alive for its first characters. */
function beginning(text: string, chars: number): string {
  return text.length <= chars ? text : decoder.decode(encoder.encode(text.slice(0, chars)));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
