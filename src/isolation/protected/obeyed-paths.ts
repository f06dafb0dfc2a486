import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CellwrightError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { isAlive, startTimeOf } from "../../process/process-life.ts";
import { liftablePaths } from "../../reach/obeyed.ts";
import { mountedInJails } from "../mounts/mounted.ts";
import { rearm } from "../mounts/rearm.ts";
import { type PathWatch, watchPaths } from "./path-watch.ts";
import { PlaceholderRecord, readRecord, recordsIn } from "./placeholder-record.ts";
import { makePlaceholder, type Placeholder, removePlaceholder } from "./placeholders.ts";
import { type ProtectedRoot, protectedRoots } from "./protected-roots.ts";

export interface ObeyedPathsConfig {
  /** Folder for records of created placeholders, from which a later process cleans up after a crash. */
  recordsDir: string;
  /** Absolute paths that the operator has exempted from protection. */
  lifted: string[];
  log: Log;
}

/** A killed jail takes a moment to end; placeholders left after that are removed at the next start. */
const EXIT_POLLS = 60;
const EXIT_POLL_MS = 50;

/** Time for a host program to finish removing or creating a repository before it is checked. */
const SETTLE_MS = 300;

/** A kernel's lease on protected paths. */
export interface HeldPaths {
  roots: ProtectedRoot[];
  /** The protected paths that exist, absolute. */
  paths: string[];
  /** Called once, with the reason, if protection is lost and cannot be restored: the kernel must end. */
  onLost(listener: (reason: string) => void): void;
  /** Removes placeholders that no jail uses any more. */
  release(): Promise<void>;
}

interface Holder {
  lost?: (reason: string) => void;
}

/**
 * Protects paths below writable folders that host programs obey (`reach/obeyed.ts`), as read-only mount points. Missing
 * ones get empty placeholders while a kernel needs them. Never changes or removes anything of the user's.
 */
export class ObeyedPaths {
  readonly #config: ObeyedPathsConfig;
  readonly #holders = new Map<string, Set<Holder>>();
  readonly #watches = new Map<string, PathWatch & { paths: string[] }>();
  readonly #record: PlaceholderRecord;
  readonly #start = startTimeOf(process.pid);
  /** Paths whose placeholder must be a file. */
  readonly #files = new Set<string>();
  #made: Placeholder[] = [];

  constructor(config: ObeyedPathsConfig) {
    this.#config = config;
    this.#record = new PlaceholderRecord(config.recordsDir);
  }

  /** The protected paths below these folders, without creating placeholders. */
  rootsOf(folders: string[]): ProtectedRoot[] {
    return protectedRoots(folders, this.#config.lifted);
  }

  async hold(folders: string[]): Promise<HeldPaths> {
    const start = await this.#start;
    const roots = this.rootsOf(folders);
    refuseLinks(roots);
    const holder: Holder = {};
    for (const { root } of roots) this.#holders.set(root, (this.#holders.get(root) ?? new Set()).add(holder));
    const release = () => this.#release(roots, holder);
    const onLost = (listener: (reason: string) => void) => {
      holder.lost = listener;
    };
    try {
      for (const { root, paths, files } of roots) {
        for (const file of files) this.#files.add(join(root, file));
        this.#make(root, paths, start);
      }
      refuseLinks(roots);
      for (const root of roots) this.#watch(root, start);
      return {
        roots,
        paths: roots.flatMap(({ root, paths }) => paths.map((path) => join(root, path)).filter(exists)),
        onLost,
        release,
      };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** Removes placeholders of processes that have crashed. */
  async sweep(): Promise<void> {
    const { recordsDir, log } = this.#config;
    for (const file of recordsIn(recordsDir).filter((each) => each !== this.#record.file)) {
      try {
        const { pid, start, made } = readRecord(file);
        if (await isAlive(pid, start)) continue;
        if (removeUnused(made).length === 0) rmSync(file, { force: true });
      } catch (error) {
        log.debug(`cannot read the placeholder record ${file} of an earlier run: ${error}`);
      }
    }
  }

  #make(root: string, paths: string[], start: string | undefined): void {
    const missing = paths.flatMap(withFoldersAbove).filter((path) => !exists(join(root, path)));
    for (const path of new Set(missing)) {
      const made = makePlaceholder(root, path, this.#files.has(join(root, path)) ? "file" : "folder");
      if (!made) continue;
      this.#made.push(made);
      this.#record.add(made, start);
    }
  }

  /** A host program that replaces a mount point removes its mount. It is mounted again, or the kernels must end. */
  #watch({ root, paths }: ProtectedRoot, start: string | undefined): void {
    const earlier = this.#watches.get(root);
    if (earlier && paths.every((path) => earlier.paths.includes(path))) return;
    earlier?.stop();
    const all = [...new Set([...(earlier?.paths ?? []), ...paths])];
    const watch = watchPaths(root, all, (changed) => this.#replaced(root, changed, start));
    this.#watches.set(root, { ...watch, paths: all });
  }

  async #replaced(root: string, paths: string[], start: string | undefined): Promise<void> {
    this.#config.log.warn(
      `${paths.map((path) => join(root, path)).join(", ")}: replaced outside of the sandbox; protecting it again`,
    );
    // A repository is being removed or created: a placeholder in it would interfere.
    const later = paths.filter((path) => path.includes("/") && !exists(join(root, path)));
    const soon = paths.filter((path) => !later.includes(path));
    let isProtected = await this.#protectAgain(root, soon, start).catch(() => false);
    if (later.length > 0) {
      await sleep(SETTLE_MS);
      const [now] = this.rootsOf([root]);
      const watched = this.#watches.get(root)?.paths ?? [];
      const added = (now?.paths ?? []).filter((path) => !watched.includes(path));
      isProtected &&= await this.#protectAgain(root, [...later, ...added], start).catch(() => false);
      if (now) this.#watch(now, start);
    }
    if (isProtected) return;
    const what = paths.map((path) => `\`${path}\``).join(", ");
    const reason = `A program outside of the sandbox replaced ${what}, which could not be protected from code again.`;
    for (const { lost } of this.#holders.get(root) ?? []) lost?.(reason);
  }

  async #protectAgain(root: string, changed: string[], start: string | undefined): Promise<boolean> {
    if (!this.#holders.has(root)) return true;
    this.#make(root, changed, start);
    const unchanged = (this.#watches.get(root)?.paths ?? []).filter((path) => !changed.includes(path));
    // Kernels that are still starting have no listener yet, and perhaps no jail.
    const jails = [...(this.#holders.get(root) ?? [])].filter(({ lost }) => lost !== undefined).length;
    return rearm({ root, changed: changed.filter((path) => exists(join(root, path))), unchanged, jails });
  }

  async #release(roots: ProtectedRoot[], holder: Holder): Promise<void> {
    const free = roots.map(({ root }) => root).filter((root) => this.#letGo(root, holder));
    if (free.length === 0) return;
    // Unless another kernel holds it by now.
    const isFree = ({ path }: Placeholder) =>
      free.some((root) => path.startsWith(`${root}/`) && !this.#holders.has(root));
    for (let tries = 0; this.#made.some(isFree) && tries < EXIT_POLLS; tries += 1) {
      if (tries > 0) await sleep(EXIT_POLL_MS);
      this.#made = [...this.#made.filter((one) => !isFree(one)), ...removeUnused(this.#made.filter(isFree))];
    }
    this.#record.replace(this.#made, await this.#start);
    await this.sweep();
  }

  /** True if it was the last holder of this folder. */
  #letGo(root: string, holder: Holder): boolean {
    const holders = this.#holders.get(root);
    if (!holders?.delete(holder) || holders.size > 0) return false;
    this.#holders.delete(root);
    this.#watches.get(root)?.stop();
    this.#watches.delete(root);
    return true;
  }
}

/** The path and its parents, outermost first. */
function withFoldersAbove(path: string): string[] {
  const names = path.split("/");
  return names.map((_, index) => names.slice(0, index + 1).join("/"));
}

/** Returns those that are still mounted in a jail, which are kept. */
function removeUnused(made: Placeholder[]): Placeholder[] {
  const mounted = mountedInJails(made);
  // Contents before their folder.
  for (const one of made.toReversed()) if (!mounted.has(one)) removePlaceholder(one);
  return made.filter((one) => mounted.has(one));
}

/** A symlink cannot be a mount point: code could replace it, or change its target. */
function refuseLinks(roots: ProtectedRoot[]): void {
  for (const { root, paths } of roots) {
    const link = paths.flatMap(withFoldersAbove).find((path) => isLink(join(root, path)));
    if (link === undefined) continue;
    const lifting = liftablePaths.has(link) ? link : ".git";
    throw new CellwrightError(
      "kernel_start_failed",
      `\`${join(root, link)}\` is a symbolic link and cannot be protected from code, but programs on this machine obey what is there.`,
      {
        hint: `Replace it with its target, or start Cellwright with --allow-write=${lifting} to let code change it.`,
      },
    );
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
