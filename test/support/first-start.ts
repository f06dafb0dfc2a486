import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { linkTestCache, programPath } from "./paths.ts";

/** Runs once before all tests: the first start of a kernel builds its snapshot, which no single test should wait for. */
export default function prepareFirstStart(): void {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-first-"));
  try {
    linkTestCache(dataDir);
    execFileSync(process.execPath, [programPath, "run", "-c", "1", "--data-dir", dataDir], { stdio: "ignore" });
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}
