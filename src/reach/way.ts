import { type BigIntStats, lstatSync, readlinkSync, statfsSync, statSync } from "node:fs";
import { dirname, join, parse, sep } from "node:path";

/** The operating system's own limit. */
const MAX_LINKS = 40;

/** Identifies a folder or file independently of its name. Includes the birth time, because inode numbers are reused. */
export type Identity = string;

/** One path component that was looked up. */
export interface Step {
  /** The folder in which it was looked up, without symlinks. */
  folder: string;
  path: string;
  stats: BigIntStats;
  isLink: boolean;
}

export interface Way {
  steps: Step[];
  /** The path with symlinks resolved, as far as it exists. */
  real: string;
  exists: boolean;
}

/** A path through a virtual file system (/proc, /sys, /dev): a symlink in there can lead into a session's jail. */
export class UnusablePath extends Error {}

const isPosix = process.platform !== "win32";
/** Of these, only /dev has an ordinary file system type. */
const virtualFolders = ["/proc", "/sys", "/dev"];
/** statfs types of proc, sysfs, cgroup, cgroup2, debugfs, tracefs, nsfs and pipefs. */
const virtualTypes = new Set([
  0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163, 0x6e736673, 0x50495045,
]);

/**
 * Resolves a path component by component, as the operating system does. Throws `UnusablePath`; stops at a missing
 * component.
 */
export function wayTo(path: string): Way {
  if (isPosix && isVirtual(path))
    throw new UnusablePath(`\`${path}\` leads through ${topOf(path)}, which has no regular files.`);
  const { root } = parse(path);
  const steps: Step[] = [];
  const devices = new Set<bigint>();
  let real = root;
  let ahead = partsOf(path.slice(root.length));
  for (let links = 0; ahead.length > 0; ) {
    const [name = "", ...rest] = ahead;
    ahead = rest;
    if (name === "..") {
      real = dirname(real);
      continue;
    }
    const place = join(real, name);
    const stats = statsOf(place);
    if (!stats) return { steps, real: join(place, ...rest), exists: false };
    const isLink = stats.isSymbolicLink();
    steps.push({ folder: real, path: place, stats, isLink });
    if (!isLink) {
      if (isPosix && !devices.has(stats.dev)) refuseVirtual(path, place);
      devices.add(stats.dev);
      real = place;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw new UnusablePath(`\`${path}\` leads through more than ${MAX_LINKS} symlinks.`);
    const target = readlinkSync(place);
    const base = parse(target).root;
    if (base !== "") real = base;
    ahead = [...partsOf(target.slice(base.length)), ...rest];
  }
  return { steps, real, exists: true };
}

/** A path that this user may not access counts as missing. */
function statsOf(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (["EACCES", "EPERM", "ENAMETOOLONG"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

export function identityOf(path: string): Identity | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && identity(stats);
}

export function identity({ dev, ino, birthtimeNs }: BigIntStats): Identity {
  return `${dev}:${ino}:${birthtimeNs}`;
}

function refuseVirtual(path: string, place: string): void {
  const isOne = isVirtual(place) || virtualTypes.has(statfsSync(place).type);
  if (isOne) throw new UnusablePath(`\`${path}\` leads through ${place}, which has no regular files.`);
}

function isVirtual(path: string): boolean {
  return virtualFolders.includes(topOf(path));
}

function topOf(path: string): string {
  return `/${partsOf(path).find((part) => part !== "..") ?? ""}`;
}

function partsOf(path: string): string[] {
  return path.split(sep).filter((part) => part !== "" && part !== ".");
}
