import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, parse, resolve, sep } from "node:path";

/** As many as the operating system follows. */
const MAX_LINKS = 40;

/** A file, each file that it leads to as a link, and the one at the end; links among their folders are followed. */
export function linkChain(path: string): string[] {
  const chain: string[] = [];
  let place = resolve(path);
  while (chain.length < MAX_LINKS) {
    place = join(realFolder(dirname(place)), basename(place));
    if (chain.includes(place)) break;
    chain.push(place);
    const target = linkTarget(place);
    if (target === undefined) break;
    place = resolve(dirname(place), target);
  }
  return chain;
}

/**
 * All places that have a say in what a path leads to: each link on the way, be it a folder or the file itself, and what
 * is at the end. Whoever can write to one of them decides what is started.
 */
export function placesOnTheWay(path: string): string[] {
  const places: string[] = [];
  let reached = parse(resolve(path)).root;
  let ahead = partsOf(resolve(path));
  for (let links = 0; ahead.length > 0; ) {
    const [name = "", ...rest] = ahead;
    const place = join(reached, name);
    const target = linkTarget(place);
    if (target === undefined || links >= MAX_LINKS) {
      reached = place;
      ahead = rest;
    } else {
      links += 1;
      places.push(place);
      const whole = resolve(reached, target);
      reached = parse(whole).root;
      ahead = [...partsOf(whole), ...rest];
    }
  }
  return [...places, reached];
}

export function linkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined;
  } catch {
    return undefined;
  }
}

function partsOf(path: string): string[] {
  return path.slice(parse(path).root.length).split(sep).filter(Boolean);
}

function realFolder(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
