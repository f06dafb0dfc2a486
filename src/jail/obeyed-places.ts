import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";
import { liftablePaths } from "../obeyed.ts";
import { isAlive, startOf } from "../process-life.ts";
import { mountedInJails } from "./mounted.ts";
import { type PlaceWatch, watchPlaces } from "./place-watch.ts";
import { PlaceholderRecord, readRecord, recordsIn } from "./placeholder-record.ts";
import { makePlaceholder, type Placeholder, removePlaceholder } from "./placeholders.ts";
import { type ProtectedRoot, protectedRoots } from "./protected-roots.ts";
import { rearm } from "./rearm.ts";

export interface ObeyedPlacesConfig {
  /** Where it is noted what was made in folders of the user's, so that a later program removes what a crash left. */
  recordsDir: string;
  /** Absolute paths whose protection the operator has lifted. */
  lifted: string[];
  log: Log;
}

/** A jail that was killed takes a moment to be gone; what stays behind then is removed at the next start. */
const LEAVING_TRIES = 60;
const LEAVING_PAUSE_MS = 50;

/** How long a program outside may take to remove or make a repository before we look at what has become of it. */
const SETTLE_MS = 300;

/** What stays as it is while a kernel lives, and for how long its mount points are needed. */
export interface HeldPlaces {
  roots: ProtectedRoot[];
  /** All of them on this machine; each exists. */
  paths: string[];
  /** Called once if the protection is lost and cannot be restored, with a sentence: the kernel must not go on. */
  onLost(listener: (reason: string) => void): void;
  /** Removes what was made, once no jail stands on it any more. */
  release(): Promise<void>;
}

interface Holder {
  lost?: (reason: string) => void;
}

/**
 * The places below writable folders that hosts obey, as mount points: what is missing is made, kept for as long as a
 * kernel needs it, and removed afterwards. Nothing of the user's is ever changed or removed.
 */
export class ObeyedPlaces {
  readonly #config: ObeyedPlacesConfig;
  readonly #holders = new Map<string, Set<Holder>>();
  readonly #watches = new Map<string, PlaceWatch & { paths: string[] }>();
  readonly #record: PlaceholderRecord;
  readonly #start = startOf(process.pid);
  /** What has to be a file where it has to be made. */
  readonly #files = new Set<string>();
  #made: Placeholder[] = [];

  constructor(config: ObeyedPlacesConfig) {
    this.#config = config;
    this.#record = new PlaceholderRecord(config.recordsDir);
  }

  /** What is protected below these folders, without making anything. */
  rootsOf(folders: string[]): ProtectedRoot[] {
    return protectedRoots(folders, this.#config.lifted);
  }

  async hold(folders: string[]): Promise<HeldPlaces> {
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

  /** Removes what programs that are gone have left behind. */
  async sweep(): Promise<void> {
    const { recordsDir, log } = this.#config;
    for (const file of recordsIn(recordsDir).filter((each) => each !== this.#record.file)) {
      try {
        const { pid, start, made } = readRecord(file);
        if (await isAlive(pid, start)) continue;
        if (removeUnused(made).length === 0) rmSync(file, { force: true });
      } catch (error) {
        log.debug(`what an earlier run left in workspaces could not be read from ${file}: ${error}`);
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

  /** A program outside that replaces a mount point takes its mount away: it is put back, or the kernels have to end. */
  #watch({ root, paths }: ProtectedRoot, start: string | undefined): void {
    const earlier = this.#watches.get(root);
    if (earlier && paths.every((path) => earlier.paths.includes(path))) return;
    earlier?.stop();
    const all = [...new Set([...(earlier?.paths ?? []), ...paths])];
    const watch = watchPlaces(root, all, (changed) => this.#replaced(root, changed, start));
    this.#watches.set(root, { ...watch, paths: all });
  }

  async #replaced(root: string, paths: string[], start: string | undefined): Promise<void> {
    this.#config.log.warn(
      `${paths.map((path) => join(root, path)).join(", ")}: replaced outside of the sandbox; protecting it again`,
    );
    // A repository that is being removed or made: a new file in it would be in the way.
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
    // Kernels that are still being started have no one to tell, and perhaps no jail yet.
    const jails = [...(this.#holders.get(root) ?? [])].filter(({ lost }) => lost !== undefined).length;
    return rearm({ root, changed: changed.filter((path) => exists(join(root, path))), unchanged, jails });
  }

  async #release(roots: ProtectedRoot[], holder: Holder): Promise<void> {
    const free = roots.map(({ root }) => root).filter((root) => this.#letGo(root, holder));
    if (free.length === 0) return;
    // Unless another kernel has come to hold it meanwhile.
    const isFree = ({ path }: Placeholder) =>
      free.some((root) => path.startsWith(`${root}/`) && !this.#holders.has(root));
    for (let tries = 0; this.#made.some(isFree) && tries < LEAVING_TRIES; tries += 1) {
      if (tries > 0) await sleep(LEAVING_PAUSE_MS);
      this.#made = [...this.#made.filter((one) => !isFree(one)), ...removeUnused(this.#made.filter(isFree))];
    }
    this.#record.replace(this.#made, await this.#start);
    await this.sweep();
  }

  /** Whether it was the last one to hold this folder. */
  #letGo(root: string, holder: Holder): boolean {
    const holders = this.#holders.get(root);
    if (!holders?.delete(holder) || holders.size > 0) return false;
    this.#holders.delete(root);
    this.#watches.get(root)?.stop();
    this.#watches.delete(root);
    return true;
  }
}

/** The path itself last. */
function withFoldersAbove(path: string): string[] {
  const names = path.split("/");
  return names.map((_, index) => names.slice(0, index + 1).join("/"));
}

/** Those that a jail still stands on stay, and are returned. */
function removeUnused(made: Placeholder[]): Placeholder[] {
  const mounted = mountedInJails(made);
  // What is in a folder before the folder.
  for (const one of made.toReversed()) if (!mounted.has(one)) removePlaceholder(one);
  return made.filter((one) => mounted.has(one));
}

/** A link cannot be a mount point: code could put something else in its place, or change what it leads to. */
function refuseLinks(roots: ProtectedRoot[]): void {
  for (const { root, paths } of roots) {
    const link = paths.flatMap(withFoldersAbove).find((path) => isLink(join(root, path)));
    if (link === undefined) continue;
    const lifting = liftablePaths.has(link) ? link : ".git";
    throw new CellwrightError(
      "kernel_start_failed",
      `\`${join(root, link)}\` is a symbolic link, and programs on this machine obey what is there: it cannot be kept from code.`,
      {
        hint: `Replace it with what it leads to, or start Cellwright with --allow-write=${lifting} to let code change it.`,
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
