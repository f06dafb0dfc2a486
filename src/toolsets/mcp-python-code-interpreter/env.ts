import { resolve } from "node:path";
import type { LogLevel } from "../../log.ts";

/** Names of Python's logging levels. */
const levels: Record<string, LogLevel> = {
  DEBUG: "debug",
  INFO: "info",
  WARNING: "warn",
  WARN: "warn",
  ERROR: "error",
  CRITICAL: "error",
  FATAL: "error",
};

/** Additional variables: LOG_LEVEL, and NOTEBOOKS_FOLDER for the folder of sessions. */
export function environment(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const { LOG_LEVEL: asked, NOTEBOOKS_FOLDER: folder, ...others } = env;
  const level = levels[asked?.trim().toUpperCase() ?? "INFO"];
  if (level === undefined)
    process.stderr.write(`cellwright warn: LOG_LEVEL=${asked} is not a Python log level; using INFO.\n`);
  return {
    ...(folder ? { NOTEBOOKS_FOLDER: resolve(cwd, folder) } : {}),
    CELLWRIGHT_LOG_LEVEL: level ?? "info",
    ...others,
  };
}
