import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, expect, onTestFinished, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { KernelProvider } from "../../../src/kernels/kernel.ts";
import { goneByLooking, lifeOf } from "../../../src/kernels/local/kernel-process.ts";
import { readKernelRecord } from "../../../src/kernels/local/kernel-record.ts";
import { connectZygote } from "../../../src/kernels/local/zygote/start.ts";
import type { Options } from "../../../src/options/options.ts";
import { type TestPython, testPython } from "../../support/pythons.ts";
import { describeWith, describeWithPythons } from "../../support/requirements.ts";
import { builtFrom } from "../provider-kernels.ts";
import { temporaryFolder, textOf } from "./forked-kernels.ts";

/** For consecutive servers that share their zygotes. */
const sharedData = temporaryFolder(afterAll);
function optionsFor(dataDir: string, python: TestPython = "managed"): Partial<Options> {
  return { kernel: "local", jail: "none", env: testPython(python), dataDir };
}

const providers: KernelProvider[] = [];
afterAll(async () => void (await Promise.all(providers.map((provider) => provider.dispose()))));

/** A session with this folder. */
const sessionIn = (folder: string) => ({
  sessionId: basename(folder),
  workspaceDir: join(folder, "workspace"),
  runDir: join(folder, "run"),
});

/** Prints until the test stops it, when everything else has happened. */
const ticking = `
import os, time
print('begun', flush=True)
tick = 0
while not os.path.exists('stop'):
    tick += 1
    print('tick', tick, flush=True)
    open('ticks', 'w').write(str(tick))
    time.sleep(0.02)
`;

/** A real server process that runs these cells and is killed when it has printed the marker. */
async function killedServer(
  cells: string[],
  word: string,
  { python = "managed", dataDir = sharedData }: { python?: TestPython; dataDir?: string } = {},
): Promise<string> {
  const folder = temporaryFolder(onTestFinished);
  onTestFinished(() => killKernel(folder));
  const session = sessionIn(folder);
  for (const made of [session.workspaceDir, session.runDir]) mkdirSync(made);
  const script = join(import.meta.dirname, "first-server.mjs");
  const args = [optionsFor(dataDir, python), session].map((value) => JSON.stringify(value));
  const server = spawn(process.execPath, [script, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  server.stdin.end(JSON.stringify(cells));
  let isThere = false;
  for await (const line of createInterface({ input: server.stdout })) {
    isThere = line.includes(word);
    if (isThere) break;
  }
  server.kill("SIGKILL");
  expect(isThere).toBe(true);
  return folder;
}

/** Whatever the outcome of the test. */
async function killKernel(folder: string): Promise<void> {
  const record = await readKernelRecord(join(folder, "run"));
  if (!record) return;
  await lifeOf({ ...record.process, exited: goneByLooking(record.process) }).kill("The test is over.");
  await goneByLooking(record.process);
}

/** What the next server adopts. */
async function adoptIn(folder: string, dataDir = sharedData) {
  const provider = await builtFrom(optionsFor(dataDir))(dataDir);
  providers.push(provider);
  return provider.adopt?.("python", { ...sessionIn(folder), signal: new AbortController().signal });
}

async function takeOver(folder: string, dataDir?: string) {
  const record = await readKernelRecord(join(folder, "run"));
  const adopted = await adoptIn(folder, dataDir);
  onTestFinished(async () => void (await adopted?.kernel.dispose()));
  if (!adopted || !record) throw new Error("The kernel is gone.");
  return { ...adopted, record };
}

async function all(events: AsyncIterable<ExecutionEvent> | undefined): Promise<ExecutionEvent[]> {
  const taken: ExecutionEvent[] = [];
  for await (const event of events ?? []) taken.push(event);
  return taken;
}

function printed(events: ExecutionEvent[]): string {
  return events.map((event) => (event.type === "stream" ? event.text : "")).join("");
}

function ticks(folder: string): number {
  return Number(readFileSync(join(folder, "workspace/ticks"), "utf8") || 0);
}

describeWithPythons("a server killed in mid-cell", (python) => {
  test("is followed by one that gets all that was printed meanwhile, and the end of the cell", async () => {
    const folder = await killedServer(["kept = 41", ticking], "tick 2", { python });
    const before = ticks(folder);
    await expect.poll(() => ticks(folder)).toBeGreaterThan(before + 5);
    const { kernel, newestCell, record } = await takeOver(folder);
    expect(newestCell?.code).toBe(ticking);
    const events: ExecutionEvent[] = [];
    for await (const event of newestCell?.events ?? []) {
      events.push(event);
      if (ticks(folder) > before + 10) writeFileSync(join(folder, "workspace/stop"), "");
    }
    const last = ticks(folder);
    const lines = Array.from({ length: last }, (_, index) => `tick ${index + 1}\n`);
    expect(printed(events)).toBe(`begun\n${lines.join("")}`);
    expect(events.at(-1)).toEqual({ type: "done", status: "ok", executionCount: 2 });
    expect(await textOf(kernel.execute("kept + 1"))).toBe("42");
    await kernel.dispose();
    await goneByLooking(record.process);
  });
});

describeWith("managedPython", "the next server", () => {
  test("reports a cell that ended with an exception while no server was running", async () => {
    const code = `${ticking}\n1 / 0`;
    const folder = await killedServer([code], "tick 2");
    writeFileSync(join(folder, "workspace/stop"), "");
    // The end of the journal: nothing is written to it after the cell.
    await expect.poll(() => readFileSync(join(folder, "run/journal"), "latin1")).toContain('"idle"');
    const { newestCell, kernel } = await takeOver(folder);
    const events = await all(newestCell?.events);
    expect(printed(events)).toContain(`tick ${ticks(folder)}\n`);
    expect(events.slice(-2)).toMatchObject([
      { type: "error", name: "ZeroDivisionError" },
      { type: "done", status: "error", executionCount: 1 },
    ]);
    expect(await textOf(kernel.execute("tick"))).toBe(String(ticks(folder)));
  });

  test("interrupts a cell that it did not start", async () => {
    const folder = await killedServer(["print('begun', flush=True)\nwhile True: pass"], "begun");
    const { newestCell, kernel } = await takeOver(folder);
    const events: ExecutionEvent[] = [];
    for await (const event of newestCell?.events ?? []) {
      events.push(event);
      if (event.type === "stream") await kernel.interrupt?.();
    }
    expect(events).toMatchObject([
      { type: "stream", text: "begun\n" },
      { type: "error", name: "KeyboardInterrupt" },
      { type: "done", status: "error" },
    ]);
  });

  test("hears of the end of a cell whose journal has been lost after its beginning", async () => {
    const folder = await killedServer([ticking], "tick 2");
    writeFileSync(join(folder, "workspace/stop"), "");
    const journal = join(folder, "run/journal");
    await expect.poll(() => readFileSync(journal, "latin1")).toContain('"idle"');
    const beginning = readFileSync(journal).indexOf("begun\\n");
    truncateSync(journal, beginning);
    const { newestCell, kernel } = await takeOver(folder);
    expect(await all(newestCell?.events)).toEqual([{ type: "done", status: "ok", executionCount: 1 }]);
    expect(await textOf(kernel.execute("1 + 1"))).toBe("2");
  });

  test("shows the newest cell when all of them are done", async () => {
    const folder = await killedServer(["print('old')", "print('new')"], "all cells are done");
    const { newestCell } = await takeOver(folder);
    expect(newestCell?.code).toBe("print('new')");
    expect(await all(newestCell?.events)).toEqual([
      { type: "stream", name: "stdout", text: "new\n" },
      { type: "done", status: "ok", executionCount: 2 },
    ]);
  });

  test("takes a kernel in which no cell has run, and knows the end of one whose zygote is gone", async () => {
    const dataDir = temporaryFolder(onTestFinished);
    const folder = await killedServer([], "all cells are done", { dataDir });
    const { kernel, newestCell, record } = await takeOver(folder, dataDir);
    expect(newestCell).toBeUndefined();
    const zygote = await connectZygote(record.zygoteSocket ?? "");
    process.kill(zygote?.info.pid ?? 0, "SIGKILL");
    await zygote?.closed;
    expect(await textOf(kernel.execute("1 + 1"))).toBe("2");
    process.kill(record.process.pid, "SIGKILL");
    expect((await kernel.closed).reason).toBe("The kernel is gone.");
  });

  test("is not fooled by a process that has got the kernel's number", async () => {
    const folder = await killedServer([], "all cells are done");
    const path = join(folder, "run/kernel.json");
    const record = JSON.parse(readFileSync(path, "utf8"));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    process.kill(record.process.pid, "SIGKILL");
    writeFileSync(path, JSON.stringify({ ...record, process: { ...record.process, pid: process.pid } }));
    expect(await adoptIn(folder)).toBeUndefined();
    writeFileSync(path, JSON.stringify({ ...record, place: "another machine" }));
    expect(await readKernelRecord(join(folder, "run"))).toBeUndefined();
    writeFileSync(path, "{");
    expect(await readKernelRecord(join(folder, "run"))).toBeUndefined();
  });
});
