import { lstatSync } from "node:fs";
import { dirname } from "node:path";
import { type Identity, identity, identityOf, NotAPlace, type Way, wayTo } from "./way.ts";

/** What of the disk the code of sessions, and the tools that write files for them, can change. Decided once at start. */
export interface CodeReachOptions {
  /** Folders that can be changed: sessions, --workspace, --allow-write, --files-dir. They may be made later. */
  writable: string[];
  /** Folders below those that are read-only in every jail and refused by every tool. */
  kept: string[];
}

/** Answers by what folders are (device, number, birth), never by what they are called. */
export class CodeReach {
  readonly #writable: string[];
  readonly #kept: Set<Identity>;

  constructor({ writable, kept }: CodeReachOptions) {
    this.#writable = writable;
    this.#kept = new Set(kept.map(identityOf).filter((found) => found !== undefined));
  }

  /**
   * The folder through which code can decide what this path leads to, or change what is there. A link that code can
   * replace counts however safe the place is that it leads to now. Throws `NotAPlace`.
   */
  through(path: string): string | undefined {
    return this.throughWay(wayTo(path));
  }

  throughWay({ steps, real, exists }: Way): string | undefined {
    let pending: string | undefined;
    for (const { folder, stats, isLink } of steps) {
      // Jails pin every folder above a kept one, and a folder cannot be two: from here on only what is in it counts.
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

  /** The writable folder that this one lies in, unless a kept one is nearer. `path` has no link in it. */
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
    if (lstatSync(place, { throwIfNoEntry: false }) || dirname(place) === place) return place;
  }
}

/** Whether each folder and link on a way belongs to us or to root, and nobody else can change it. */
export function isOurs({ steps, exists }: Way): boolean {
  if (!exists || process.platform === "win32") return exists;
  const us = process.getuid?.() ?? 0;
  return steps.every(({ stats, isLink }) => {
    if (stats.uid !== 0n && stats.uid !== BigInt(us)) return false;
    if (isLink) return true;
    // Where the sticky bit is set, as in /tmp, only the owner of an entry can replace it.
    if (stats.isDirectory() && (stats.mode & 0o1000n) !== 0n) return true;
    // A user's own group, which has the user's number and no other member.
    const byGroup = (stats.mode & 0o020n) !== 0n && !(stats.gid === stats.uid && stats.gid === BigInt(us));
    return !byGroup && (stats.mode & 0o002n) === 0n;
  });
}

/** `NotAPlace` as undefined, for what is only left out when it is odd. */
export function wayIfAny(path: string): Way | undefined {
  try {
    return wayTo(path);
  } catch (error) {
    if (error instanceof NotAPlace || (error as NodeJS.ErrnoException).code) return undefined;
    throw error;
  }
}
