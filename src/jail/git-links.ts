import { lstatSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** A repository that git looks at when it is asked about a folder. */
export interface Repository {
  /** The folder it is checked out in. */
  worktree: string;
  gitDir: string;
  /** Where its index has links to commits of others, from the worktree. */
  links: string[];
}

/** The one that the folder is part of, if it is, and those that are checked out below it as links. */
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
 * The places below a folder where git looks for other repositories by itself: submodules, and whatever else its index has
 * as a link to a commit. Of one that is checked out its `.git`; any other as a whole, so that no repository is planted in
 * it that the next `git status` would obey. Relative paths, existing or not.
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

/** The folder may be part of a repository. */
function repositoryAround(root: string): string {
  for (let folder = root; ; folder = dirname(folder)) {
    if (gitDirOf(join(folder, ".git")) !== undefined) return folder;
    if (folder === dirname(folder)) return root;
  }
}

/** A repository's own folder: `.git` itself, or what the file of that name says. */
function gitDirOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory()) return path;
  if (!stats?.isFile()) return undefined;
  const target = /^gitdir: (.*?)\r?\n?$/.exec(readFileSync(path, "utf8"))?.[1];
  return target === undefined ? undefined : resolve(path, "..", target);
}

interface Known {
  changed: string;
  links: string[];
}

/** By the index's path: it is read again only when it has changed. */
const known = new Map<string, Known>();

function linksOf(gitDir: string): string[] {
  const file = join(gitDir, "index");
  const stats = statSync(file, { throwIfNoEntry: false });
  if (!stats) return [];
  const changed = `${stats.ino}:${stats.size}:${stats.mtimeMs}`;
  const before = known.get(file);
  if (before?.changed === changed) return before.links;
  const hashBytes = /^\s*objectformat\s*=\s*"?sha256/im.test(readText(join(gitDir, "config"))) ? 32 : 20;
  const { links, shared } = readIndex(readFileSync(file), hashBytes);
  // A split index has most of its entries in another file.
  const more = shared ? readIndex(readFileSync(join(gitDir, `sharedindex.${shared}`)), hashBytes).links : [];
  const all = [...new Set([...links, ...more])];
  known.set(file, { changed, links: all });
  return all;
}

const GIT_LINK = 0o160000;
const MODE_AT = 24;
const HASH_AT = 40;
const EXTENDED = 0x4000;

/** Git's index, versions 2 to 4 (gitformat-index). Throws when it is none. */
function readIndex(bytes: Buffer, hashBytes: number): { links: string[]; shared?: string | undefined } {
  const version = bytes.readUInt32BE(4);
  if (bytes.toString("latin1", 0, 4) !== "DIRC" || version < 2 || version > 4) throw new Error("not an index of git");
  const links: string[] = [];
  let path: Buffer = Buffer.alloc(0);
  let at = 12;
  for (let left = bytes.readUInt32BE(8); left > 0; left -= 1) {
    const start = at;
    const flagsAt = start + HASH_AT + hashBytes;
    at = flagsAt + (bytes.readUInt16BE(flagsAt) & EXTENDED ? 4 : 2);
    let kept = 0;
    if (version === 4) {
      // What the path before has at its end and this one has not.
      const dropped = readVarint(bytes, at);
      at = dropped.next;
      kept = Math.max(0, path.length - dropped.value);
    }
    const end = bytes.indexOf(0, at);
    if (end < 0) throw new Error("the index of git is not whole");
    path = Buffer.concat([path.subarray(0, kept), bytes.subarray(at, end)]);
    if (bytes.readUInt32BE(start + MODE_AT) === GIT_LINK && path.length > 0) links.push(path.toString());
    at = version === 4 ? end + 1 : start + Math.ceil((end + 1 - start) / 8) * 8;
  }
  return { links, shared: sharedIndex(bytes, at, hashBytes) };
}

/** The name of the file that a split index has its other entries in. */
function sharedIndex(bytes: Buffer, from: number, hashBytes: number): string | undefined {
  for (let at = from; at + 8 <= bytes.length - hashBytes; at += 8 + bytes.readUInt32BE(at + 4)) {
    if (bytes.toString("latin1", at, at + 4) === "link") return bytes.toString("hex", at + 8, at + 8 + hashBytes);
  }
  return undefined;
}

/** As git writes the offsets of packs: seven bits a byte, each further one adding one. */
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

/** Empty where it cannot be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
