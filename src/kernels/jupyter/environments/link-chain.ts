import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

/** As many as the kernel follows. */
const MAX_LINKS = 40;

/**
 * All the places that have a say in what a path leads to: itself, each link on the way and the file at the end, with
 * the links in their folders followed. Whoever can write to one of them decides what is started.
 */
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

export function linkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined;
  } catch {
    return undefined;
  }
}

function realFolder(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
