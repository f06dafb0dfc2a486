import { lstat, mkdir, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { grantsAround } from "../../isolation/mounts/landlock.ts";
import type { HeldPaths, ObeyedPaths } from "../../isolation/protected/obeyed-paths.ts";
import type { Log } from "../../log.ts";
import type { WarmSlot } from "../kernel.ts";
import { deferred, readyInTime } from "../starting.ts";
import type { Report } from "./deno/frames.ts";
import { createDenoDir } from "./deno-dir.ts";
import { WasmKernel } from "./kernel.ts";
import type { KernelPackagesParts } from "./kernel-packages.ts";
import { type DenoIsolation, planLaunch } from "./launch.ts";
import type { Image } from "./packages/packages.ts";
import { findLink, removeLinks } from "./planted-links.ts";
import { type ProcessExit, startProcess } from "./process.ts";
import type { Readable } from "./readable.ts";
import type { Snapshot } from "./snapshot.ts";
import type { Sources } from "./sources.ts";
import { Watchdog } from "./watchdog.ts";

/** Settings of all kernels. */
export interface KernelSettings {
  memoryMb: number;
  diskMb: number;
  /** For workspaces in a user's folder: the files there that other programs obey. */
  obeyed?: ObeyedPaths | undefined;
  /** Paths of programs that also run outside of jails: read-only for code, wherever they are. */
  protectedPaths?: string[] | undefined;
  startTimeoutMs: number;
  log: Log;
}

/** What kernels need and can have on this machine. */
export interface Surroundings {
  sources: Sources;
  isolation: DenoIsolation | undefined;
  layers: string[];
  /** User folders that code may read. */
  readable: Readable[];
  /** Settings that cannot be honored. */
  notes: string[];
}

export interface KernelStart extends KernelSettings, Surroundings {
  snapshot: Snapshot;
  slot: WarmSlot;
  packages?: Omit<KernelPackagesParts, "ask" | "siteDir"> | undefined;
  /** Packages that are installed from the start. */
  image?: Image | undefined;
  signal: AbortSignal;
}

/** Starts one kernel from the snapshot. A failed start leaves no process and no temporary folder behind. */
export async function startKernel(options: KernelStart): Promise<WasmKernel> {
  const { slot, signal, log } = options;
  signal.throwIfAborted();
  const siteDir = join(slot.runDir, "site");
  for (const folder of [slot.workspaceDir, siteDir]) await makeFolder(folder);
  // In a jail, a link that points outside leads nowhere; Deno without a jail would follow it.
  const checkLinks = options.isolation ? undefined : linkCheck(options);
  await checkLinks?.();
  const denoDir = await createDenoDir(slot.runDir, options.snapshot.denoDir);
  const [workspaceDir, realSiteDir] = await Promise.all([realpath(slot.workspaceDir), realpath(siteDir)]);
  const imageDir = options.image && (await realpath(options.image.siteDir));
  // Without mounts, Deno's own rules apply, and those do not need the files to exist.
  const held = hasMounts(options) ? await options.obeyed?.hold([workspaceDir]) : undefined;
  const readOnly = await readOnlyPaths(options, workspaceDir, held);
  const launch = planLaunch({
    ...options,
    snapshotFile: options.snapshot.file,
    workspaceDir,
    readOnlyPaths: readOnly,
    writablePaths: await grantsAround(
      workspaceDir,
      readOnly.map((path) => join(workspaceDir, path)),
    ),
    siteDir: realSiteDir,
    imageDir,
    denoDir,
  });

  const ready = deferred<string>();
  let receive = (report: Report): void => {
    if (report.type === "ready") ready.resolve(report.value);
    else if (report.type === "failed" || report.type === "broken") {
      ready.reject(new StartFailed(report.value, { isSnapshotSuspect: true }));
    }
  };
  const process = startProcess(launch, (report) => receive(report), log);
  held?.onLost((reason) => process.kill(reason));
  const closed = process.exited.then(async (exit) => {
    await rm(denoDir, { recursive: true, force: true }).catch((error) =>
      log.warn(`could not remove ${denoDir}`, error),
    );
    await held?.release();
    return { reason: closedReason(exit), exit };
  });
  void closed.then(({ reason, exit }) => {
    // With a reason if Cellwright itself ended the process.
    const isSnapshotSuspect = exit.reason === undefined;
    ready.reject(new StartFailed(`${reason} ${exit.stderr}`.trim(), { isSnapshotSuspect }));
  });

  try {
    const python = await readyInTime(ready.promise, { ...options, who: "The kernel" });
    const pid = await process.locate();
    if (pid === undefined) throw new StartFailed("it ended at once.", { isSnapshotSuspect: false });
    const watchdog = new Watchdog({
      pid,
      memoryMb: options.memoryMb,
      diskMb: options.diskMb,
      folders: [slot.workspaceDir, denoDir],
      isBusy: () => kernel.busy,
      isHeldBack: () => process.paused,
      ping: () => process.ping(),
      kill: (reason) => process.kill(reason),
    });
    const info = describe(python, options.layers, options.notes);
    const kernel = new WasmKernel({
      info,
      process,
      watchdog,
      closed: closed.then(({ reason }) => ({ reason })),
      beforeCell: checkLinks,
      packages: options.packages && { ...options.packages, siteDir, installed: options.image?.packages },
    });
    receive = (report) => kernel.receive(report);
    void process.exited.then((exit) => kernel.close(closedReason(exit)));
    void watchdog.start();
    return kernel;
  } catch (error) {
    process.kill("The start was aborted.");
    await closed;
    throw error;
  }
}

/**
 * Read-only paths, relative to the workspace. All of `.git`, because no git runs here that would have to commit. Deno's
 * rules let code rename folders above a denied path, so without mounts the topmost folder is read-only.
 */
async function readOnlyPaths(options: KernelStart, workspaceDir: string, held?: HeldPaths): Promise<string[]> {
  const { obeyed, protectedPaths = [] } = options;
  const roots = held?.roots ?? obeyed?.rootsOf([workspaceDir]) ?? [];
  const real = await Promise.all(protectedPaths.map((path) => realpath(path).catch(() => "")));
  const below = real
    .filter((path) => path.startsWith(`${workspaceDir}/`))
    .map((path) => path.slice(workspaceDir.length + 1));
  const topmost = (path: string) => path.split("/")[0] ?? path;
  return [
    ...new Set([
      ...roots.flatMap(({ paths }) => paths).map(topmost),
      ...(hasMounts(options) ? below : below.map(topmost)),
    ]),
  ];
}

function hasMounts({ isolation }: KernelStart): boolean {
  return isolation?.tier === "namespaces";
}

/** Code of an earlier kernel may have replaced its folder by a file. */
async function makeFolder(folder: string): Promise<void> {
  const found = await lstat(folder).catch(() => undefined);
  if (found && !found.isDirectory()) await rm(folder, { force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
}

/** Links are removed from folders that Cellwright created. In a user's own folder nothing is deleted. */
function linkCheck({ slot: { workspaceDir }, obeyed, log }: KernelStart): () => Promise<void> {
  if (obeyed) return () => refuseLinks(workspaceDir);
  return async () => {
    const removed = await removeLinks(workspaceDir);
    if (removed > 0)
      log.warn(`${removed} symbolic links were removed from ${workspaceDir}: without a jail they lead out`);
  };
}

async function refuseLinks(workspaceDir: string): Promise<void> {
  const link = await findLink(workspaceDir);
  if (link === undefined) return;
  const message = `\`${link}\` is a symbolic link, which code in WASM could follow out of the workspace because no OS sandbox is used.`;
  throw new CellwrightError("kernel_start_failed", message, {
    hint: "Use a `--workspace` without symbolic links, or an OS sandbox: `cellwright doctor` shows what is missing.",
  });
}

export function describe(python: string, layers: string[], notes: string[]): WasmKernel["info"] {
  const description = `Python ${python} (Pyodide, WebAssembly)`;
  return { provider: "wasm", language: "python", description, layers, ...(notes.length > 0 ? { notes } : {}) };
}

export class StartFailed extends CellwrightError {
  /** The process failed before Python ran: the snapshot may be broken. */
  readonly isSnapshotSuspect: boolean;

  constructor(detail: string, { isSnapshotSuspect }: Pick<StartFailed, "isSnapshotSuspect">) {
    super("kernel_start_failed", `The WASM kernel did not start: ${detail.slice(-2_000)}`);
    this.isSnapshotSuspect = isSnapshotSuspect;
  }
}

/** Why a process exited, for users. V8 aborts with SIGTRAP when its heap is full. */
function closedReason(exit: ProcessExit): string {
  if (exit.reason) return exit.reason;
  if (exit.signal === "SIGTRAP") return "The kernel ran out of memory: its JavaScript heap is full.";
  if (exit.signal) return `The kernel was killed by ${exit.signal}.`;
  return exit.code === null ? "The kernel could not be started." : `The kernel exited with code ${exit.code}.`;
}
