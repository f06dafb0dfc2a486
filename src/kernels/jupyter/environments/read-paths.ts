import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, resolve, sep } from "node:path";
import { isWithin, realPath } from "./folders.ts";
import type { Interpreter } from "./interpreter.ts";
import { linkChain, linkTarget } from "./link-chain.ts";

/** The folders that a process with this interpreter has to be able to read, none below another. */
export function readPaths(interpreter: Interpreter): string[] {
  const { python, prefix, basePrefix, path } = interpreter;
  const links = linkChain(python).flatMap((place) => [dirname(place), targetFolder(place)]);
  const wanted = [prefix, basePrefix, ...links, ...path]
    .filter((folder) => folder !== undefined)
    .flatMap((folder) => [resolve(folder), realPath(folder)])
    .filter((folder) => existsSync(folder) && !isTooMuch(folder));
  const unique = [...new Set(wanted)];
  return unique.filter((folder) => !unique.some((other) => other !== folder && isWithin(folder, other)));
}

/** As the link says it: links among the folders on that way have to be seen, too. */
function targetFolder(link: string): string | undefined {
  const target = linkTarget(link);
  return target === undefined ? undefined : dirname(resolve(dirname(link), target));
}

/** A line in some .pth file must not open the whole home folder. */
function isTooMuch(folder: string): boolean {
  return folder === sep || isWithin(homedir(), folder);
}
