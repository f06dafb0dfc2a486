/** Logs go to stderr: stdout belongs to MCP. */

export const logLevels = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface Log {
  error(message: string, cause?: unknown): void;
  warn(message: string, cause?: unknown): void;
  info(message: string): void;
  debug(message: string): void;
}

export function createLog(level: LogLevel, write: (line: string) => void = (line) => process.stderr.write(line)): Log {
  const at =
    (own: LogLevel) =>
    (message: string, cause?: unknown): void => {
      if (logLevels.indexOf(own) > logLevels.indexOf(level)) return;
      const detail = cause === undefined ? "" : `: ${cause instanceof Error ? (cause.stack ?? cause.message) : cause}`;
      write(`cellwright ${own}: ${printable(message + detail)}\n`);
    };
  return { error: at("error"), warn: at("warn"), info: at("info"), debug: at("debug") };
}

/** Control characters from user code must not drive the terminal that shows the log. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "�");
}
