import { lstatSync } from "node:fs";
import { dirname } from "node:path";
import { type Identity, identity, identityOf, UnusablePath, type Way, wayTo } from "./way.ts";

/** What session code, and the tools that write files for it, can change on disk. Determined once at startup. */
export interface CodeReachOptions {
  /** Writable folders: sessions, --workspace, --allow-write, --files-dir. They may be created later. */
  writable: string[];
  /** Folders below those that are read-only in every jail and refused by every tool. */
  kept: string[];
}

/** Compares folders by identity (device, inode, birth time), never by name. */
export class CodeReach {
  readonly #writable: string[];
  readonly #kept: Set<Identity>;

  constructor({ writable, kept }: CodeReachOptions) {
    this.#writable = writable;
    this.#kept = new Set(kept.map(identityOf).filter((found) => found !== undefined));
  }

  /**
   * The writable folder through which code can redirect this path, or change what it leads to. A symlink that code can
   * replace counts, however safe its current target is. Throws `UnusablePath`.
   */
  through(path: string): string | undefined {
    return this.throughWay(wayTo(path));
  }

  throughWay({ steps, real, exists }: Way): string | undefined {
    let pending: string | undefined;
    for (const { folder, stats, isLink } of steps) {
      // Jails pin every folder above a kept one, so its path cannot be redirected: from here on only its content
      // counts.
      if (!isLink && this.#kept.has(identity(stats))) pending = undefined;
      else {
        const writable = this.folder(folder);
        if (writable && isLink) return writable;
        pending ??= writable;
      }
    }
    const end = exists ? real : nearestExisting(real);
    return pending ?? this.folder(end);
  }

  /** The writable folder that contains this one, unless a kept one is nearer. `path` has no symlinks. */
  folder(path: string): string | undefined {
    const writable = new Map(this.#writable.map((each) => [identityOf(each), each]));
    for (let place = path; ; place = dirname(place)) {
      const stats = lstatSync(place, { bigint: true, throwIfNoEntry: false });
      const id = stats && identity(stats);
      if (id && this.#kept.has(id)) return undefined;
      const found = id && writable.get(id);
      if (found) return found;
      if (dirname(place) === place) return undefined;
    }
  }
}

function nearestExisting(path: string): string {
  for (let place = path; ; place = dirname(place)) {
    if (dirname(place) === place || isSeen(place)) return place;
  }
}

/** False also for what is in a folder that this user cannot enter. */
function isSeen(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** Whether every folder and symlink on the way belongs to this user or root, and no other user can change it. */
export function isOurs({ steps, exists }: Way): boolean {
  if (!exists || process.platform === "win32") return exists;
  const us = process.getuid?.() ?? 0;
  return steps.every(({ stats, isLink }) => {
    if (stats.uid !== 0n && stats.uid !== BigInt(us)) return false;
    if (isLink) return true;
    // With the sticky bit, as in /tmp, only the owner of an entry can replace it.
    if (stats.isDirectory() && (stats.mode & 0o1000n) !== 0n) return true;
    // A user-private group: same id as the user, no other member.
    const byGroup = (stats.mode & 0o020n) !== 0n && !(stats.gid === stats.uid && stats.gid === BigInt(us));
    return !byGroup && (stats.mode & 0o002n) === 0n;
  });
}

/** Undefined instead of `UnusablePath`, for callers that skip such paths. */
export function wayIfAny(path: string): Way | undefined {
  try {
    return wayTo(path);
  } catch (error) {
    if (error instanceof UnusablePath || (error as NodeJS.ErrnoException).code) return undefined;
    throw error;
  }
}
