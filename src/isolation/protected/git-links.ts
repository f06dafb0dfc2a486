import { lstatSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** A repository that git uses for a folder. */
export interface Repository {
  /** The folder that contains its working tree. */
  worktree: string;
  gitDir: string;
  /** Paths of submodule entries (gitlinks) in its index, relative to the worktree. */
  links: string[];
}

/** The repository that contains the folder, if any, and the submodules checked out below it. */
export function repositoriesIn(root: string): Repository[] {
  const found: Repository[] = [];
  const visit = (worktree: string): void => {
    const gitDir = gitDirOf(join(worktree, ".git"));
    if (gitDir === undefined || found.some((one) => one.gitDir === gitDir)) return;
    const links = linksOf(gitDir);
    found.push({ worktree, gitDir, links });
    for (const link of links) {
      const place = join(worktree, link);
      if (place.startsWith(`${root}/`) && isCheckedOut(place)) visit(place);
    }
  };
  visit(repositoryAround(root));
  return found;
}

/**
 * The paths below a folder where git looks for other repositories automatically: gitlinks in its index, such as
 * submodules. For one that is checked out, its `.git`; for others the whole path, so that code cannot plant a
 * repository that the next `git status` would obey. Relative paths, existing or not.
 */
export function linkedRepositories(root: string): string[] {
  return repositoriesIn(root)
    .flatMap(({ worktree, links }) => links.map((link) => join(worktree, link)))
    .filter((place) => place.startsWith(`${root}/`))
    .map((place) => relative(root, isCheckedOut(place) ? join(place, ".git") : place));
}

function isCheckedOut(place: string): boolean {
  return lstatSync(join(place, ".git"), { throwIfNoEntry: false }) !== undefined;
}

/** The nearest folder above with a repository; else the folder itself. */
function repositoryAround(root: string): string {
  for (let folder = root; ; folder = dirname(folder)) {
    if (gitDirOf(join(folder, ".git")) !== undefined) return folder;
    if (folder === dirname(folder)) return root;
  }
}

/** The git directory: `.git` itself, or the path in a file of that name. */
function gitDirOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory()) return path;
  if (!stats?.isFile()) return undefined;
  const target = /^gitdir: (.*?)[\r\n]*$/s.exec(readFileSync(path, "utf8"))?.[1];
  return target === undefined ? undefined : resolve(path, "..", target);
}

interface CachedLinks {
  changed: string;
  links: string[];
}

/** Cache by the index's path; read again when the file has changed. */
const known = new Map<string, CachedLinks>();

function linksOf(gitDir: string): string[] {
  const file = join(gitDir, "index");
  const stats = statSync(file, { throwIfNoEntry: false });
  if (!stats) return [];
  const changed = `${stats.ino}:${stats.size}:${stats.mtimeMs}`;
  const before = known.get(file);
  if (before?.changed === changed) return before.links;
  const hashBytes = /^\s*objectformat\s*=\s*"?sha256/im.test(readText(join(gitDir, "config"))) ? 32 : 20;
  const { links, shared } = readIndex(readFileSync(file), hashBytes);
  // A split index keeps most of its entries in another file.
  const more = shared ? readIndex(readFileSync(join(gitDir, `sharedindex.${shared}`)), hashBytes).links : [];
  const all = [...new Set([...links, ...more])];
  known.set(file, { changed, links: all });
  return all;
}

const GIT_LINK = 0o160000;
const MODE_AT = 24;
const HASH_AT = 40;
const EXTENDED = 0x4000;

/** Parses git's index, versions 2 to 4 (gitformat-index). Throws if it is invalid. */
function readIndex(bytes: Buffer, hashBytes: number): { links: string[]; shared?: string | undefined } {
  const version = bytes.readUInt32BE(4);
  if (bytes.toString("latin1", 0, 4) !== "DIRC" || version < 2 || version > 4) throw new Error("not a git index");
  const links: string[] = [];
  let path: Buffer = Buffer.alloc(0);
  let at = 12;
  for (let left = bytes.readUInt32BE(8); left > 0; left -= 1) {
    const start = at;
    const flagsAt = start + HASH_AT + hashBytes;
    at = flagsAt + (bytes.readUInt16BE(flagsAt) & EXTENDED ? 4 : 2);
    let kept = 0;
    if (version === 4) {
      // Characters to drop from the end of the previous path.
      const dropped = readVarint(bytes, at);
      at = dropped.next;
      kept = Math.max(0, path.length - dropped.value);
    }
    const end = bytes.indexOf(0, at);
    if (end < 0) throw new Error("the git index is truncated");
    path = Buffer.concat([path.subarray(0, kept), bytes.subarray(at, end)]);
    if (bytes.readUInt32BE(start + MODE_AT) === GIT_LINK && path.length > 0) links.push(path.toString());
    at = version === 4 ? end + 1 : start + Math.ceil((end + 1 - start) / 8) * 8;
  }
  return { links, shared: sharedIndex(bytes, at, hashBytes) };
}

/** The file name of a split index's shared part. */
function sharedIndex(bytes: Buffer, from: number, hashBytes: number): string | undefined {
  for (let at = from; at + 8 <= bytes.length - hashBytes; at += 8 + bytes.readUInt32BE(at + 4)) {
    if (bytes.toString("latin1", at, at + 4) === "link") return bytes.toString("hex", at + 8, at + 8 + hashBytes);
  }
  return undefined;
}

/** Git's offset encoding (as in packs): seven bits per byte, plus one for each continuation. */
function readVarint(bytes: Buffer, at: number): { value: number; next: number } {
  let next = at + 1;
  let byte = bytes.readUInt8(at);
  let value = byte & 0x7f;
  while (byte & 0x80) {
    byte = bytes.readUInt8(next);
    next += 1;
    value = ((value + 1) << 7) | (byte & 0x7f);
  }
  return { value, next };
}

/** Empty if it cannot be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
