import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, realpath, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CellwrightError } from "../../../../errors.ts";
import type { Log } from "../../../../log.ts";
import type { IndexAddress } from "../../../../packages/index-address.ts";
import type { ResolvedPackage } from "../../deno/install/frames.ts";
import type { Sources } from "../../sources.ts";
import { createDraft, removeDeadDrafts } from "../drafts.ts";
import { packageError } from "../failure.ts";
import { imageId, openImage, type SealedImage, seal } from "../image.ts";
import type { Distribution } from "./distribution.ts";
import { createDownloads, type SilentHosts } from "./downloads.ts";
import { type InstallerConfig, startInstaller } from "./installer.ts";
import { findMicropip } from "./micropip.ts";
import type { WheelFolder } from "./wheel-folder.ts";

export interface Build {
  requirements: string[];
  /** `name==version` of packages whose version must not change. */
  constraints: string[];
  sources: Sources;
  distribution: Distribution;
  wheels: WheelFolder;
  index: () => Promise<IndexAddress | undefined>;
  imagesDir: string;
  /** For drafts and Deno's cache; on the same disk as the images. */
  workDir: string;
  networkEnv: Record<string, string>;
  silentHosts: SilentHosts;
  signal: AbortSignal;
  progress: (message: string) => void;
  log: Log;
}

/** Builds one image in a draft folder and moves it into place when it is complete. Failures leave nothing behind. */
export async function buildImage(build: Build): Promise<SealedImage> {
  const { sources, distribution, wheels, signal, log, requirements, constraints } = build;
  signal.throwIfAborted();
  // The real path: Deno's permissions do not follow links.
  const workDir = await realpath(build.workDir);
  const [denoDir, draftsDir] = [join(workDir, "deno"), join(workDir, "drafts")];
  for (const folder of [denoDir, draftsDir]) await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeDeadDrafts(draftsDir, log);
  const draft = await createDraft(draftsDir, log);
  const downloads = createDownloads({
    ...build,
    folder: draft.downloadsDir,
    denoDir,
    distributionUrl: distribution.url,
  });
  const start = (snapshot: InstallerConfig["snapshot"]) =>
    startInstaller({
      sources,
      siteDir: draft.siteDir,
      snapshot,
      readableDirs: [draft.downloadsDir, ...(wheels.path ? [wheels.path] : [])],
      denoDir,
      downloads,
      progress: build.progress,
      log,
    });
  const kept = join(workDir, snapshotName(sources));
  const fresh = join(draft.folder, "python");
  let installer = start(existsSync(kept) ? { use: "load", file: kept } : { use: "save", file: fresh });
  const stop = async (): Promise<void> => {
    await Promise.all([installer.end(), downloads.end()]);
  };
  const abort = () => void stop();
  signal.addEventListener("abort", abort, { once: true });
  try {
    build.progress(`looking for ${requirements.join(", ")}`);
    // Asking pip for its configured index is slow; the distribution is asked meanwhile.
    const indexing = build.index().then((index) => {
      if (index) downloads.setIndex(index);
      return index;
    });
    const [micropipFile, index] = await Promise.all([
      findMicropip({ folderFiles: wheels.files, distribution, index: indexing, downloads }),
      indexing,
    ]);
    signal.throwIfAborted();
    if (!(await installer.ready)) {
      signal.throwIfAborted();
      await rm(kept, { force: true });
      installer = start({ use: "save", file: fresh });
    }
    let ready: SealedImage | undefined;
    const lock = await installer.install(
      {
        requirements,
        constraints,
        micropipFile,
        folderFiles: wheels.files,
        distributionUrl: distribution.url,
        indexUrl: index?.url,
      },
      async (found) => {
        ready = await openImage(join(build.imagesDir, imageId(found, sources)));
        return ready === undefined;
      },
    );
    signal.throwIfAborted();
    await rename(fresh, kept).catch(() => {});
    return ready ?? (await moveIntoPlace(build, draft.imageDir, lock));
  } catch (error) {
    // Errors of an aborted process are a consequence of the abort.
    signal.throwIfAborted();
    throw translated(error, requirements);
  } finally {
    signal.removeEventListener("abort", abort);
    await stop();
    await draft.remove();
  }
}

/** Turns system errors about the data folder into readable ones. */
function translated(error: unknown, requirements: string[]): unknown {
  if (!(error instanceof Error) || !("syscall" in error)) return error;
  const outcome = `${requirements.join(", ")} could not be installed`;
  if (["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "")) {
    return new CellwrightError("storage_full", `The disk is full: ${outcome}.`, { cause: error });
  }
  return packageError(
    `${outcome}: ${error.message}.`,
    "Make the folder of --data-dir writable, or name another.",
    error,
  );
}

/** Valid for the versions and the platform that made it. */
export function snapshotName({ versions }: Sources): string {
  return `python-${versions.pyodide}-${versions.deno}-${process.platform}-${process.arch}`;
}

async function moveIntoPlace(build: Build, folder: string, lock: ResolvedPackage[]): Promise<SealedImage> {
  const id = imageId(lock, build.sources);
  const target = join(build.imagesDir, id);
  await seal(folder, { id, lock, requirements: build.requirements });
  await mkdir(build.imagesDir, { recursive: true, mode: 0o755 });
  for (let tries = 0; ; tries += 1) {
    try {
      await rename(folder, target);
    } catch (error) {
      // The target exists: another process was faster, or a broken image was found just now.
      if (!["ENOTEMPTY", "EEXIST", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "") || tries > 2)
        throw error;
    }
    const image = await openImage(target);
    if (image) return image;
    await removeImage(target);
  }
}

/** Moves it away first, so that no reader sees half of an image. */
export async function removeImage(folder: string): Promise<void> {
  const grave = join(dirname(folder), `.removed-${randomBytes(6).toString("hex")}`);
  await rename(folder, grave).then(
    () => rm(grave, { recursive: true, force: true }),
    (error) => {
      if (error.code !== "ENOENT") throw error;
    },
  );
}
