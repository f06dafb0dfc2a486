import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findIsolation } from "../../../src/isolation/isolation.ts";
import { familyOf } from "../../../src/isolation/processes.ts";
import { ObeyedPaths } from "../../../src/isolation/protected/obeyed-paths.ts";
import { result, run } from "../../contracts/kernel.ts";
import { cacheDir, wasmKernels } from "./wasm-kernels.ts";

const scratch = mkdtempSync(join(tmpdir(), "cellwright-wasm-start-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const tiers = ["namespaces", "landlock"] as const;
const working = await Promise.all(tiers.map(async (tier) => !("obstacle" in (await findIsolation(tier)))));
const modes = [...tiers.filter((_, index) => working[index]), "none" as const];

describe("jail modes", () => {
  test.each(modes)("a kernel starts with --jail %s, and leaves nothing in its run folder", async (jail) => {
    const kernels = wasmKernels({ jail });
    const { kernel, runDir } = await kernels.start();
    expect(kernel.info.layers).toHaveLength(jail === "none" ? 1 : 3);
    if (process.platform === "linux") expect(await callFilterOf(runDir)).toBe(jail === "none" ? "0" : "2");
    expect(await kernels.provider.list(new AbortController().signal)).toMatchObject([{ layers: kernel.info.layers }]);
    expect(result(await run(kernel, "open('a', 'w').write('b'); 1 + 1"))).toBe("2");
    await kernel.dispose();
    expect(readdirSync(runDir)).toEqual(["site"]);
    await kernels.provider.dispose();
  });

  test("a tier that is required and does not work is a clear refusal", async () => {
    const findIsolation = async () => ({ obstacle: "this kernel has no Landlock" });
    await expect(wasmKernels({ jail: "landlock", findIsolation }).start()).rejects.toMatchObject({
      code: "kernel_start_failed",
      message: expect.stringContaining("this kernel has no Landlock"),
    });
  });
});

/** The seccomp mode of the innermost process that was started for this folder: 2 is a filter. */
async function callFilterOf(folder: string): Promise<string | undefined> {
  // Below the temporary folder: mounts of a jail are listed by their path in a file system, which may begin there.
  const session = `/${relative(tmpdir(), dirname(folder))}/`;
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const started = pids.find((pid) => {
    try {
      const [command, mounts] = ["cmdline", "mountinfo"].map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8"));
      return /deno/.test(command ?? "") && `${command}${mounts}`.includes(session);
    } catch {
      return false;
    }
  });
  const innermost = (await familyOf(Number(started))).at(-1);
  return /^Seccomp:\s+(\d)/m.exec(readFileSync(`/proc/${innermost}/status`, "utf8"))?.[1];
}

describe("starting", () => {
  const kernels = wasmKernels();
  const slot = (sessionId: string) => ({
    sessionId,
    workspaceDir: join(kernels.folder, sessionId, "workspace"),
    runDir: join(kernels.folder, sessionId, "run"),
  });
  const start = (sessionId: string, signal = new AbortController().signal) =>
    kernels.provider.start({ language: "python" }, { ...slot(sessionId), signal });
  const denoDirs = (sessionId: string) =>
    existsSync(slot(sessionId).runDir)
      ? readdirSync(slot(sessionId).runDir).filter((name) => name.startsWith("deno-"))
      : [];

  test("a warm kernel is used once, by the session it was made for", async () => {
    kernels.provider.warm?.(slot("warm"));
    const first = await start("warm");
    expect(denoDirs("warm")).toHaveLength(1);
    expect(result(await run(first, "secret = 1"))).toBeUndefined();
    const second = await start("warm");
    expect(denoDirs("warm")).toHaveLength(2);
    expect(result(await run(second, "'secret' in globals()"))).toBe("False");
    await Promise.all([first.dispose(), second.dispose()]);
  });

  test("an aborted start leaves nothing behind", async () => {
    const abort = new AbortController();
    const started = start("aborted", abort.signal);
    abort.abort(new Error("changed my mind"));
    await expect(started).rejects.toThrow("changed my mind");
    expect(denoDirs("aborted")).toEqual([]);
  });

  test("another language is not found here", async () => {
    const options = { ...slot("bash"), signal: new AbortController().signal };
    await expect(kernels.provider.start({ language: "bash" }, options)).rejects.toMatchObject({
      code: "kernel_not_found",
    });
  });

  test("a kernel that is not ready in time is a timeout", async () => {
    const hurried = wasmKernels({ startTimeoutMs: 1 });
    await expect(hurried.start()).rejects.toMatchObject({ code: "kernel_start_timeout" });
  });

  test("disposing the provider ends warm kernels too", async () => {
    const other = wasmKernels();
    const { kernel } = await other.start();
    other.provider.warm?.({ ...slot("never"), sessionId: "never" });
    await other.provider.dispose();
    expect(await kernel.closed).toMatchObject({ reason: "The kernel was closed." });
    expect(denoDirs("never")).toEqual([]);
  });
});

const silent = { error() {}, warn() {}, info() {}, debug() {} };

describe("the snapshot", () => {
  const cache = join(scratch, "cache");
  const snapshotFile = () => {
    const files = readdirSync(join(cache, "wasm")).map((key) => join(cache, "wasm", key, "snapshot"));
    return files.sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs)[0] ?? "";
  };

  /** It is whole, but no kernel starts from it. */
  const breakSnapshot = () => {
    const broken = readFileSync(snapshotFile()).fill(0, 100_000, 20_000_000);
    writeFileSync(snapshotFile(), broken);
    writeFileSync(join(snapshotFile(), "../checksum"), String(crc32(broken)));
  };

  beforeAll(async () => {
    const messages: string[] = [];
    const kernels = wasmKernels({ cacheDir: cache });
    await kernels.start({ progress: (message) => messages.push(message) });
    expect(messages).toEqual(["preparing Python for its first start"]);
  });

  test("one that was cut short is built again", async () => {
    truncateSync(snapshotFile(), 1_000_000);
    const { kernel } = await wasmKernels({ cacheDir: cache }).start();
    expect(result(await run(kernel, "1 + 1"))).toBe("2");
  });

  test("one that was never tried is kept: a refused workspace says nothing about it", async () => {
    const before = statSync(snapshotFile()).ino;
    const obeyed = new ObeyedPaths({ recordsDir: join(scratch, "records"), lifted: [], log: silent });
    const kernels = wasmKernels({ cacheDir: cache, jail: "none", obeyed });
    const workspaceDir = join(kernels.folder, "session-1/workspace");
    mkdirSync(workspaceDir, { recursive: true });
    symlinkSync("/usr", join(workspaceDir, "link"));
    await expect(kernels.start()).rejects.toThrow("is a symbolic link");
    expect(statSync(snapshotFile()).ino).toBe(before);
  });

  test("one that does not start is built again, once; what another process is building stays", async () => {
    breakSnapshot();
    const draft = `${dirname(snapshotFile())}.0123456789ab`;
    mkdirSync(draft);
    const { kernel } = await wasmKernels({ cacheDir: cache, log: silent }).start();
    expect(result(await run(kernel, "1 + 1"))).toBe("2");
    expect(existsSync(draft)).toBe(true);
  });
});

describe("when our process is killed", () => {
  test.each(modes)("no kernel is left, even with a looping cell (--jail %s)", async (jail) => {
    const folder = mkdtempSync(join(scratch, "orphan-"));
    const script = join(import.meta.dirname, "orphan-parent.mjs");
    const parent = spawn(process.execPath, [script, folder, cacheDir, jail], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await new Promise<void>((resolve, reject) => {
      parent.stdout.on("data", (chunk) => String(chunk).includes("looping") && resolve());
      parent.once("exit", (code) => reject(new Error(`the parent left with ${code}`)));
    });
    const children = descendants(parent.pid ?? 0);
    expect(children.length).toBeGreaterThan(0);
    parent.kill("SIGKILL");
    await expect.poll(() => children.filter(isAlive)).toEqual([]);
  });
});

function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean)
    .map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
