import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { CellwrightError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { findTemplate } from "./deno-dir.ts";
import { denoEnv, runArgs } from "./launch.ts";
import type { Sources } from "./sources.ts";

const run = promisify(execFile);

/** Building takes 3 to 5 s; on a machine under load it has taken half a minute. */
const BUILD_TIMEOUT_MS = 180_000;

/** The memory of a Python with our runner in it, from which kernels start ten times faster than without. */
export interface Snapshot {
  file: string;
  /** A DENO_DIR to copy, with compiled code in it; absent where none could be made. */
  denoDir?: string | undefined;
}

export interface Snapshots {
  /** The snapshot, built if there is none or a broken one. Callers at the same time share one build. */
  get(progress?: (message: string) => void): Promise<Snapshot>;
  /** Resolves when nothing is being built any more. */
  settled(): Promise<void>;
  /** Throws the snapshot away: a kernel did not start from it. */
  discard(): Promise<void>;
}

export interface SnapshotConfig {
  sources: Sources;
  cacheDir: string;
  jailLibraries: string[] | undefined;
  memoryMb: number;
  /** Ends a build that nobody waits for any more. */
  disposing: AbortSignal;
  log: Log;
}

export function createSnapshots(config: SnapshotConfig): Snapshots {
  const { sources, cacheDir, disposing, log } = config;
  const listeners = new Set<(message: string) => void>();
  let current: Promise<Snapshot> | undefined;

  const make = async (): Promise<Snapshot> => {
    const folder = join(cacheDir, "wasm", await keyOf(sources));
    const snapshotFile = join(folder, "snapshot");
    if (!(await isWhole(folder))) {
      for (const listener of listeners) listener("preparing Python for its first start");
      log.info("building the Python snapshot");
      await build(sources, folder, disposing);
    }
    return { file: snapshotFile, denoDir: await findTemplate(folder, { ...config, snapshotFile }, log) };
  };

  return {
    async get(progress) {
      if (progress) listeners.add(progress);
      current ??= make();
      try {
        return await current;
      } catch (error) {
        current = undefined;
        throw error;
      } finally {
        if (progress) listeners.delete(progress);
      }
    },
    settled: () =>
      Promise.resolve(current).then(
        () => {},
        () => {},
      ),
    async discard() {
      current = undefined;
      await rm(join(cacheDir, "wasm", await keyOf(sources)), { recursive: true, force: true });
    },
  };
}

/** Everything that goes into a snapshot or has to fit it. */
async function keyOf(sources: Sources): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([sources.versions, process.platform, process.arch]));
  const hostFiles = (await readdir(sources.hostDir)).sort().map((name) => join(sources.hostDir, name));
  for (const file of [...hostFiles, ...sources.pythonFiles.map(({ file }) => file)]) {
    hash.update(await readFile(file)).update("\0");
  }
  return `${sources.versions.pyodide}-${hash.digest("hex").slice(0, 16)}`;
}

/** Guards against a file cut short by a full disk or a crash, not against somebody who can write here. */
async function isWhole(folder: string): Promise<boolean> {
  try {
    const [snapshot, checksum] = await Promise.all([
      readFile(join(folder, "snapshot")),
      readFile(join(folder, "checksum"), "utf8"),
    ]);
    return String(crc32(snapshot)) === checksum;
  } catch {
    return false;
  }
}

/** Builds aside and moves into place, so that two processes can do so at once: the second one finds the place taken. */
async function build(sources: Sources, folder: string, disposing: AbortSignal): Promise<void> {
  const draft = `${folder}.${randomBytes(6).toString("hex")}`;
  const denoDir = join(draft, "deno-dir");
  try {
    await rm(folder, { recursive: true, force: true });
    await mkdir(denoDir, { recursive: true, mode: 0o700 });
    const file = join(draft, "snapshot");
    await runBuilder(sources, { file, denoDir, disposing });
    await writeFile(join(draft, "checksum"), String(crc32(await readFile(file))));
    await rm(denoDir, { recursive: true, force: true });
    await rename(draft, folder).catch((error) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } catch (cause) {
    if (cause instanceof CellwrightError) throw cause;
    throw new CellwrightError("kernel_start_failed", `The Python snapshot could not be written: ${cause}`, { cause });
  } finally {
    await rm(draft, { recursive: true, force: true }).catch(() => {});
  }
}

async function runBuilder(
  sources: Sources,
  { file, denoDir, disposing }: { file: string; denoDir: string; disposing: AbortSignal },
): Promise<void> {
  const { pyodideDir, hostDir, pythonFiles } = sources;
  const args = [
    ...runArgs([pyodideDir, hostDir, ...pythonFiles.map((python) => python.file)]),
    `--allow-write=${file.replaceAll(",", ",,")}`,
    sources.snapshotBuilderFile,
    pyodideDir,
    file,
    ...pythonFiles.map((python) => `${python.module}=${python.file}`),
  ];
  try {
    await run(sources.denoFile, args, {
      env: denoEnv(denoDir),
      timeout: BUILD_TIMEOUT_MS,
      killSignal: "SIGKILL",
      signal: disposing,
    });
  } catch (cause) {
    const { stderr, message } = cause as { stderr?: string; message: string };
    const detail = (stderr || message).slice(-2_000);
    throw new CellwrightError("kernel_start_failed", `The Python snapshot could not be built: ${detail}`, { cause });
  }
}
