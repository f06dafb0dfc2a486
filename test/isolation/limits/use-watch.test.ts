import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, unlinkSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { memoryUse } from "../../../src/isolation/limits/memory-use.ts";
import { type Watched, watchUse } from "../../../src/isolation/limits/use-watch.ts";
import { familyOf } from "../../../src/isolation/processes.ts";
import { testPython } from "../../support/pythons.ts";

const MB = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "cellwright-watch-"));
const stops: (() => void)[] = [];
let count = 0;
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function watch(
  watched: Partial<Watched>,
): Promise<{ workspace: string; reported: string[]; check(): Promise<string | undefined> }> {
  count += 1;
  const workspace = join(folder, String(count));
  mkdirSync(workspace, { recursive: true });
  if (watched.folders) writeFileSync(join(workspace, "before"), Buffer.alloc(80 * MB));
  const reported: string[] = [];
  const { started, check, stop } = watchUse({
    processes: async () => [process.pid],
    diskMb: 20,
    isBusy: () => true,
    onExceeded: (reason) => reported.push(reason),
    ...watched,
    folders: [workspace],
  });
  stops.push(stop);
  await started;
  return { workspace, reported, check };
}

test("a session whose files grow beyond the limit is reported once, and one below is not", async () => {
  const { workspace, reported } = await watch({});
  const other = await watch({});
  writeFileSync(join(other.workspace, "small"), Buffer.alloc(10 * MB));
  for (const name of ["a", "b", "c"]) writeFileSync(join(workspace, name), Buffer.alloc(20 * MB));
  await expect.poll(() => reported).toEqual(["The kernel was ended because its files grew beyond the limit of 20 MB."]);
  expect(other.reported).toEqual([]);
});

test("files without a name count", async () => {
  const { workspace, reported } = await watch({});
  const file = join(workspace, "nameless");
  const descriptor = openSync(file, "w");
  unlinkSync(file);
  for (let written = 0; written < 60; written += 1) writeSync(descriptor, Buffer.alloc(MB));
  await expect.poll(() => reported.length).toBe(1);
  closeSync(descriptor);
});

test("what was there before is not held against it, and between cells it is looked at, too", async () => {
  const { workspace, reported } = await watch({ folders: ["full"], isBusy: () => false });
  writeFileSync(join(workspace, "little"), Buffer.alloc(2 * MB));
  const another = await watch({ isBusy: () => false });
  for (const name of ["a", "b"]) writeFileSync(join(another.workspace, name), Buffer.alloc(40 * MB));
  await expect.poll(() => another.reported.length).toBe(1);
  expect(reported).toEqual([]);
  writeFileSync(join(workspace, "more"), Buffer.alloc(60 * MB));
  await expect.poll(() => reported.length).toBe(1);
});

test("where memory is to be watched, the sum of all processes counts", async () => {
  const hold = "import time; held = bytearray(b'x') * (120 << 20); print('held', flush=True); time.sleep(60)";
  const one = `${testPython("debian")} -I -S -c "${hold}" &`;
  const script = `${one} ${one} ${one} wait`;
  const child = spawn("/bin/sh", ["-c", script], { stdio: ["ignore", "pipe", "ignore"], detached: true });
  try {
    const processes = () => familyOf(child.pid ?? 0);
    const { reported } = await watch({ processes, memoryMb: 64 });
    const generous = await watch({ processes, memoryMb: 400 });
    await expect.poll(() => reported).toEqual([expect.stringContaining("more than the limit of 64 MB")]);
    expect(generous.reported).toEqual([]);
  } finally {
    process.kill(-(child.pid ?? 0), "SIGKILL");
  }
});

test("memory that only a descriptor leads to counts, once for all who hold it, and so does what is mapped", async () => {
  const hold =
    "import os, time; fd = os.memfd_create('held'); [os.write(fd, bytes(1 << 20)) for _ in range(200)]; os.fork(); " +
    "print('held', flush=True); time.sleep(60)";
  const child = spawn(testPython("debian"), ["-I", "-S", "-c", hold], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  try {
    await once(child.stdout, "data");
    const pids = await familyOf(child.pid ?? 0);
    expect(pids).toHaveLength(2);
    const used = await memoryUse(pids);
    expect(used).toBeGreaterThan(200 * MB);
    expect(used).toBeLessThan(300 * MB);
  } finally {
    process.kill(-(child.pid ?? 0), "SIGKILL");
  }
});

test("a process that is not a kernel is named in the reason, and not reported first", async () => {
  const { workspace, reported, check } = await watch({ who: "The installer", isBusy: () => false });
  expect(await check()).toBeUndefined();
  writeFileSync(join(workspace, "large"), Buffer.alloc(60 * MB));
  expect(await check()).toBe("The installer was ended because its files grew beyond the limit of 20 MB.");
  expect(reported).toEqual([]);
});
