import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { CellwrightError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { findTemplate } from "./deno-dir.ts";
import { type DenoIsolation, denoEnv, runArgs } from "./launch.ts";
import type { Image } from "./packages/packages.ts";
import type { Sources } from "./sources.ts";

const run = promisify(execFile);

/** Building takes 3 to 5 s; on a machine under load it has taken half a minute. */
const BUILD_TIMEOUT_MS = 180_000;

/** The memory of a Python with the runner loaded. Kernels start from it ten times faster. */
export interface Snapshot {
  file: string;
  /** A DENO_DIR with compiled code to copy; absent if it could not be made. */
  denoDir?: string | undefined;
}

export interface Snapshots {
  /**
   * The snapshot, built if it is missing or broken. With an image, its packages are already imported where possible.
   * Concurrent callers share one build.
   */
  get(options?: { image?: Image | undefined; progress?: ((message: string) => void) | undefined }): Promise<Snapshot>;
  /** Resolves when no build is running. */
  settled(): Promise<void>;
  /** Removes all snapshots, because a kernel did not start from one; not those that another process is building. */
  discard(): Promise<void>;
}

export interface SnapshotConfig {
  sources: Sources;
  cacheDir: string;
  isolation: DenoIsolation | undefined;
  memoryMb: number;
  /** Aborts builds at shutdown. */
  disposing: AbortSignal;
  log: Log;
}

export function createSnapshots(config: SnapshotConfig): Snapshots {
  const { sources, cacheDir, disposing, log } = config;
  const listeners = new Set<(message: string) => void>();
  const made = new Map<string, Promise<Snapshot>>();
  const once = (key: string, make: () => Promise<Snapshot>): Promise<Snapshot> => {
    const known = made.get(key);
    if (known) return known;
    const making = make();
    made.set(key, making);
    making.catch(() => made.delete(key));
    return making;
  };
  const tell = (message: string) => {
    for (const listener of listeners) listener(message);
  };

  const makePlain = async (): Promise<Snapshot> => {
    const folder = join(cacheDir, "wasm", await keyOf(sources));
    const snapshotFile = join(folder, "snapshot");
    if (!(await isWhole(folder))) {
      tell("preparing Python for its first start");
      log.info("building the Python snapshot");
      await build(sources, { folder, disposing });
    }
    return { file: snapshotFile, denoDir: await findTemplate(folder, { ...config, snapshotFile }, log) };
  };

  /** A package with a native library cannot be in a snapshot; its kernels import it at run time. */
  const makeImported = async (image: Image): Promise<Snapshot> => {
    const plain = await once("", makePlain);
    const folder = `${join(cacheDir, "wasm", await keyOf(sources))}-${image.id}`;
    const refusal = join(folder, "refused");
    if (await readFile(refusal).catch(() => undefined)) return plain;
    if (!(await isWhole(folder))) {
      tell(`preparing ${image.requirements.join(", ")} for a quick start`);
      try {
        await build(sources, { folder, disposing, image });
      } catch (error) {
        if (disposing.aborted) throw error;
        log.info(`${image.requirements.join(", ")} cannot be in a snapshot: ${(error as Error).message}`);
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeFile(refusal, String((error as Error).message));
        return plain;
      }
    }
    return { file: join(folder, "snapshot"), denoDir: plain.denoDir };
  };

  return {
    async get({ image, progress } = {}) {
      if (progress) listeners.add(progress);
      try {
        return await (image ? once(image.id, () => makeImported(image)) : once("", makePlain));
      } finally {
        if (progress) listeners.delete(progress);
      }
    },
    async settled() {
      await Promise.allSettled(made.values());
    },
    async discard() {
      made.clear();
      const key = await keyOf(sources);
      for (const name of await readdir(join(cacheDir, "wasm")).catch(() => [])) {
        const path = join(cacheDir, "wasm", name);
        if (name.startsWith(key) && !(await isBeingWritten(path))) await rm(path, { recursive: true, force: true });
      }
    },
  };
}

/** Hash of everything that goes into a snapshot or must match it. */
async function keyOf(sources: Sources): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([sources.versions, process.platform, process.arch]));
  const hostFiles = (await readdir(sources.hostDir, { recursive: true }))
    .filter((name) => extname(name) !== "")
    .sort()
    .map((name) => join(sources.hostDir, name));
  for (const file of [...hostFiles, ...sources.pythonFiles.map(({ file }) => file)]) {
    hash.update(await readFile(file)).update("\0");
  }
  return `${sources.versions.pyodide}-${hash.digest("hex").slice(0, 16)}`;
}

/** Detects a file truncated by a full disk or a crash. Not a protection against attackers who can write here. */
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

const drafts = /\.[0-9a-f]{12}$/;
/** A build takes seconds. */
const ABANDONED_DRAFT_MS = 3_600_000;

async function isBeingWritten(path: string): Promise<boolean> {
  const changed = drafts.test(path) ? (await stat(path).catch(() => undefined))?.mtimeMs : undefined;
  return changed !== undefined && Date.now() - changed < ABANDONED_DRAFT_MS;
}

/** Builds in a draft folder and moves it into place. Of two processes at once, the second one finds the place taken. */
async function build(sources: Sources, { folder, ...options }: BuildOptions & { folder: string }): Promise<void> {
  const draft = `${folder}.${randomBytes(6).toString("hex")}`;
  const denoDir = join(draft, "deno-dir");
  try {
    await mkdir(denoDir, { recursive: true, mode: 0o700 });
    const file = join(draft, "snapshot");
    await runBuilder(sources, { file, denoDir, ...options });
    await writeFile(join(draft, "checksum"), String(crc32(await readFile(file))));
    await rm(denoDir, { recursive: true, force: true });
    // Another process may have built it meanwhile, and started kernels from it.
    if (await isWhole(folder)) return;
    await rm(folder, { recursive: true, force: true });
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

interface BuildOptions {
  disposing: AbortSignal;
  image?: Image | undefined;
}

async function runBuilder(
  sources: Sources,
  { file, denoDir, disposing, image }: BuildOptions & { file: string; denoDir: string },
): Promise<void> {
  const { pyodideDir, hostDir, pythonFiles } = sources;
  const imageDir = image && (await realpath(image.siteDir));
  const args = [
    ...runArgs({
      read: [pyodideDir, hostDir, ...(imageDir ? [imageDir] : []), ...pythonFiles.map((python) => python.file)],
      write: [file],
    }),
    sources.snapshotBuilderFile,
    pyodideDir,
    file,
    imageDir ?? "-",
    (image?.requirements ?? []).map((requirement) => /^[a-z0-9-]*/.exec(requirement)?.[0] ?? "").join(","),
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
