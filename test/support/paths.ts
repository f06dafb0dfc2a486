import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The built program, as users start it. */
export const programPath = fileURLToPath(new URL("../../dist/main.js", import.meta.url));

/** Data folders share only the interpreter's snapshots: they take seconds to build. */
export function linkTestCache(dataDir: string): void {
  const cache = fileURLToPath(new URL("../../node_modules/.cache/cellwright-test/cache", import.meta.url));
  mkdirSync(cache, { recursive: true });
  symlinkSync(cache, join(dataDir, "cache"));
}
