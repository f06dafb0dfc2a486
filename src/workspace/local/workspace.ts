import { type BigIntStats, existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { entries, type Folder, type Name, type OpenFolder } from "../../folders/folder.ts";
import { openFolder as bestOpenFolder } from "../../folders/open-folder.ts";
import { liftablePaths } from "../../reach/obeyed.ts";
import { failedWith } from "../../system-error.ts";
import { compare } from "../compare.ts";
import { mimeTypeOf } from "../mime.ts";
import { namesOf, outside, shown } from "../path.ts";
import { explain } from "../refusals.ts";
import type { Workspace } from "../workspace.ts";
import { listFolder } from "./list.ts";
import { notFound, type OpenedPath, type OpenOptions, openPath } from "./open.ts";
import { type Protected, ProtectedPaths } from "./protected-paths.ts";
import { readWhole, requireRegularFile } from "./read.ts";
import { removeTree } from "./remove.ts";
import { type FolderMark, MAX_ENTRIES, scanFolder } from "./scan.ts";
import { writeWhole } from "./write.ts";

export interface LocalWorkspaceOptions {
  openFolder?: OpenFolder;
  /** Paths that may be read but not changed. */
  protect?: (() => Protected) | undefined;
  /** Whether a replaced file stays executable. */
  keepExecutable?: boolean;
}

/** A workspace that is a local folder. A cell may change anything in it at any time, also during these operations. */
export function openLocalWorkspace(root: string, options: LocalWorkspaceOptions = {}): Workspace {
  const { openFolder = bestOpenFolder, protect, keepExecutable } = options;
  const guard = () => protect && new ProtectedPaths(protect());

  async function opened<T>(
    path: string,
    options: Omit<OpenOptions, "openFolder">,
    use: (place: OpenedPath) => Promise<T>,
  ) {
    const place = openPath(root, path, { ...options, openFolder });
    try {
      return await use(place);
    } catch (error) {
      throw explain(error, path);
    } finally {
      place.close();
    }
  }

  /** A scan must not fail because of a cell: a removed workspace is empty, a replaced one is incomplete. */
  async function takeMark(): Promise<FolderMark> {
    let folder: Folder;
    try {
      folder = openFolder(root);
    } catch (error) {
      if (!failedWith(error)) throw error;
      return { files: new Map(), complete: error.code === "ENOENT", totalBytes: 0 };
    }
    try {
      return await scanFolder(folder);
    } finally {
      folder.close();
    }
  }

  return {
    async list(path, { recursive = false, limit = MAX_ENTRIES } = {}) {
      const prefix = namesOf(path)
        .map((name) => `${name}/`)
        .join("");
      if (prefix === "" && !existsSync(root)) return { entries: [], more: false };
      return opened(path, {}, async ({ folder, name, stats }) => {
        if (!stats) throw notFound(path, folder, name);
        if (!stats.isDirectory()) throw new CellwrightError("invalid_input", `\`${shown(path)}\` is not a folder.`);
        const inside = folder.enter(name);
        try {
          return listFolder(inside, { prefix, recursive, limit, isHidden: protect && isPlaceholder });
        } finally {
          inside.close();
        }
      });
    },

    async read(path, { maxBytes }) {
      return opened(path, {}, async ({ folder, name, stats }) => {
        if (!stats) throw notFound(path, folder, name);
        const fd = folder.openFile(name, (found) => requireRegularFile(found, path));
        return { bytes: await readWhole(fd, path, maxBytes), mimeType: mimeTypeOf(path) };
      });
    },

    async write(path, bytes) {
      return opened(path, { create: true, guard: guard() }, (place) =>
        writeWhole(place, path, bytes, { keepExecutable }),
      );
    },

    async remove(path) {
      return opened(path, { keepLastLink: true, guard: guard() }, async ({ folder, name, stats }) => {
        if (!stats) throw notFound(path, folder, name);
        if (name === ".") throw outside(path, "the workspace itself cannot be removed");
        await removeTree(folder, name);
      });
    },

    async resolve(path) {
      return opened(path, {}, async (place) => place.path);
    },

    mark: takeMark,

    async changedSince(mark) {
      const now = await takeMark();
      const complete = mark.complete && now.complete;
      return { changes: compare(mark, now), complete, totalBytes: now.totalBytes, mark: now };
    },

    hostPath: (path) => join(resolve(root), ...namesOf(path)),
  };
}

/** An empty folder with a protected name is a mount point of a sandbox, or has no effect. */
function isPlaceholder(path: string, stats: BigIntStats, folder: Folder, name: Name): boolean {
  if (!stats.isDirectory() || !liftablePaths.has(path)) return false;
  const inside = folder.enter(name);
  try {
    for (const _ of entries(inside)) return false;
    return true;
  } finally {
    inside.close();
  }
}
