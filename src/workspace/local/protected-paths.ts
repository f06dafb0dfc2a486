import { type BigIntStats, lstatSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { type Folder, lstatIn } from "../../folders/folder.ts";
import { foldName } from "../../reach/obeyed.ts";
import { shown } from "../path.ts";

/** Paths in a workspace that must not be changed through it. Evaluated again for each change. */
export interface Protected {
  /** Folders, with everything in them, whose code also runs outside of sandboxes: Python environments, this program. */
  folders: string[];
  /** Folders, and relative paths in them that programs on this machine execute or obey, existing or not. */
  roots: { root: string; paths: string[] }[];
}

interface Reason {
  what: string;
  hint: string;
}

/**
 * Decides by device and inode of the folders that were actually opened, never by the given path: symlinks, aliases of a
 * folder and case make no difference. Only what does not exist yet is judged by its name.
 */
export class ProtectedPaths {
  readonly #things = new Map<string, Reason>();
  /** Parents of protected paths: may be written to, but not removed or replaced. */
  readonly #above = new Map<string, Reason>();
  /** By parent folder. */
  readonly #names = new Map<string, Map<string, Reason>>();

  constructor({ folders, roots }: Protected) {
    for (const folder of folders) this.#add(folder, outsideReason(folder));
    for (const { root, paths } of roots) {
      for (const path of paths) this.#add(join(root, path), obeyedReason(path));
    }
  }

  /** Throws if this folder, which was just opened, is protected. */
  entered(folder: Folder, path: string): void {
    const reason = this.#things.get(idOf(lstatIn(folder, ".")));
    if (reason) throw refusal(path, reason);
  }

  /** Throws if this name in a folder is protected, whether or not it exists. */
  named(folder: Folder, name: string, path: string): void {
    const reason = this.#names.get(idOf(lstatIn(folder, ".")))?.get(foldName(name));
    if (reason) throw refusal(path, reason);
  }

  /** Throws if this is, or contains, something protected. */
  found(stats: BigIntStats | undefined, path: string): void {
    const reason = this.#things.get(idOf(stats)) ?? this.#above.get(idOf(stats));
    if (reason) throw refusal(path, reason);
  }

  /** Protects a symlink at this path as well as its target. */
  #add(path: string, reason: Reason): void {
    for (const stats of [lstatOf(path), statOf(path)]) if (stats) this.#things.set(idOf(stats), reason);
    const parent = idOf(statOf(dirname(path)));
    if (parent !== "") {
      const names = this.#names.get(parent) ?? new Map<string, Reason>();
      this.#names.set(parent, names.set(foldName(basename(path)), reason));
    }
    for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
      const id = idOf(statOf(folder));
      if (id !== "") this.#above.set(id, reason);
    }
  }
}

function outsideReason(folder: string): Reason {
  return {
    what: `files in \`${folder}\` also run outside of the sandbox`,
    hint: "Use another folder. Packages of a session are installed with install_packages.",
  };
}

function obeyedReason(path: string): Reason {
  return {
    what: `programs on this machine automatically run \`${path}\` or read it as configuration`,
    hint: `Choose another name, or start Cellwright with --allow-write=${path} to allow it.`,
  };
}

function refusal(path: string, { what, hint }: Reason): CellwrightError {
  return new CellwrightError("path_protected", `\`${shown(path)}\` cannot be changed: ${what}.`, { hint });
}

function idOf(stats: BigIntStats | undefined): string {
  return stats ? `${stats.dev}:${stats.ino}` : "";
}

function lstatOf(path: string): BigIntStats | undefined {
  return attempt(() => lstatSync(path, { bigint: true, throwIfNoEntry: false }));
}

function statOf(path: string): BigIntStats | undefined {
  return attempt(() => statSync(path, { bigint: true, throwIfNoEntry: false }));
}

/** A component of the path may be a file, or unreadable. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
