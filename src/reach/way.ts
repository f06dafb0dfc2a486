import { type BigIntStats, lstatSync, readlinkSync, statfsSync, statSync } from "node:fs";
import { dirname, join, parse, sep } from "node:path";

/** As many as the operating system follows. */
const MAX_LINKS = 40;

/** A folder or file by what it is and not by what it is called. With its birth: numbers of files are given out again. */
export type Identity = string;

/** One name that was looked up on the way to a path. */
export interface Step {
  /** The folder it was looked up in; no part of this path is a link. */
  folder: string;
  path: string;
  stats: BigIntStats;
  isLink: boolean;
}

export interface Way {
  steps: Step[];
  /** Where the path leads, without a link in it; as far as it exists. */
  real: string;
  exists: boolean;
}

/** A path that leads through files the kernel makes up: a link in there can lead into the jail of a session. */
export class NotAPlace extends Error {}

const isPosix = process.platform !== "win32";
/** Of these, only /dev is no file system of its own kind. */
const madeUp = ["/proc", "/sys", "/dev"];
/** What statfs says of proc, sysfs, cgroup, cgroup2, debugfs, tracefs, nsfs and pipefs. */
const madeUpTypes = new Set([0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163, 0x6e736673, 0x50495045]);

/** Goes to a path name by name, as the operating system does. Throws `NotAPlace`; what does not exist ends the way. */
export function wayTo(path: string): Way {
  if (isPosix && isMadeUp(path))
    throw new NotAPlace(`\`${path}\` leads through ${topOf(path)}, where no file is kept.`);
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
      if (isPosix && !devices.has(stats.dev)) refuseMadeUp(path, place);
      devices.add(stats.dev);
      real = place;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw new NotAPlace(`\`${path}\` leads through more than ${MAX_LINKS} links.`);
    const target = readlinkSync(place);
    const base = parse(target).root;
    if (base !== "") real = base;
    ahead = [...partsOf(target.slice(base.length)), ...rest];
  }
  return { steps, real, exists: true };
}

/** What we may not look at is not there for us. */
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

function refuseMadeUp(path: string, place: string): void {
  const isOne = isMadeUp(place) || madeUpTypes.has(statfsSync(place).type);
  if (isOne) throw new NotAPlace(`\`${path}\` leads through ${place}, where no file is kept.`);
}

function isMadeUp(path: string): boolean {
  return madeUp.includes(topOf(path));
}

function topOf(path: string): string {
  return `/${partsOf(path).find((part) => part !== "..") ?? ""}`;
}

function partsOf(path: string): string[] {
  return path.split(sep).filter((part) => part !== "" && part !== ".");
}
