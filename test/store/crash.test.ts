import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../src/log.ts";
import { openDiskStore } from "../../src/store/disk.ts";

const ROUNDS = 50;
/** Concurrently, because most of a round is waiting for a program to start. */
const LANES = 5;
let base: string;

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "cellwright-crash-"));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

test("kill -9 at any moment loses nothing that was acknowledged, and no cell is there twice", async () => {
  const lanes = await Promise.all(Array.from({ length: LANES }, (_, lane) => crashAgainAndAgain(`data-${lane}`)));
  // Otherwise no kill hit a running cell, or no cell ended, and the test shows nothing.
  expect(lanes.reduce((sum, { lost }) => sum + lost, 0)).toBeGreaterThan(ROUNDS / 10);
  expect(lanes.reduce((sum, { finished }) => sum + finished, 0)).toBeGreaterThan(ROUNDS / 10);
}, 120_000);

/** One data folder for many consecutive programs. */
async function crashAgainAndAgain(name: string): Promise<{ lost: number; finished: number }> {
  const dataDir = join(base, name);
  const begun: string[] = [];
  const finished: string[] = [];
  let lost = 0;
  for (let round = 0; round < ROUNDS / LANES; round += 1) {
    for (const [what, id = ""] of await runAndKill(dataDir, round * 100_000, 1 + Math.random() * 20)) {
      (what === "begun" ? begun : finished).push(id);
    }
    const store = await openDiskStore({ dataDir, log: createLog("silent") });
    const history = await store.history("s1");
    await store.dispose();
    const statuses = new Map(history.map(({ id, status }) => [id, status]));
    expect(statuses.size, "no cell twice").toBe(history.length);
    expect(finished.filter((id) => statuses.get(id) !== "ok")).toEqual([]);
    expect(begun.filter((id) => !statuses.has(id))).toEqual([]);
    for (const { id, status, outputs, notices } of history) {
      if (status === "ok") expect(outputs).toHaveLength(1);
      else expect([id, status, notices.length]).toEqual([id, "kernel_died", 1]);
    }
    lost = history.filter(({ status }) => status === "kernel_died").length;
  }
  return { lost, finished: finished.length };
}

async function runAndKill(dataDir: string, first: number, afterLines: number): Promise<string[][]> {
  const args = [join(import.meta.dirname, "crash-writer.mjs"), dataDir, String(first)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  // It continues while we count: the kill hits it at any point.
  child.stdout.setEncoding("utf8").on("data", (text) => {
    said += text;
    if (said.split("\n").length > afterLines) child.kill("SIGKILL");
  });
  await once(child, "close");
  return said
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(" "));
}
