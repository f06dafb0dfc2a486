import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { until } from "./until.ts";

const RUNNING = "held-cell";

/** A cell that runs until `releaseCells`, wherever below a server's data folder its workspace is. */
export const heldCell = [
  "import os, time",
  `open('${RUNNING}', 'w').close()`,
  "while not os.path.exists('go'): time.sleep(0.05)",
].join("\n");

/** Waits until this many held cells of a server run, and lets them end. */
export async function releaseCells(dataDir: string, count: number): Promise<void> {
  let held: string[] = [];
  await until(`${count} held cells to run`, () => {
    held = heldIn(dataDir);
    return held.length === count;
  });
  for (const folder of held) writeFileSync(join(folder, "go"), "");
}

/** The folders of running held cells. */
function heldIn(dataDir: string): string[] {
  return pathsBelow(dataDir)
    .filter((path) => basename(path) === RUNNING)
    .map((path) => join(dataDir, dirname(path)))
    .filter((folder) => !existsSync(join(folder, "go")));
}

function pathsBelow(dataDir: string): string[] {
  try {
    return readdirSync(dataDir, { recursive: true, encoding: "utf8" });
  } catch {
    // A folder was removed during the scan: the next scan sees all.
    return [];
  }
}
