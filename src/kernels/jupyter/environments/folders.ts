import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, relative, resolve } from "node:path";
import { isExecutable } from "./candidate.ts";

export function homeOf(env: NodeJS.ProcessEnv): string {
  return env.HOME || env.USERPROFILE || homedir();
}

/** An absolute path, from one that may begin with `~`. */
export function expanded(path: string, { home, workingDir }: { home: string; workingDir: string }): string {
  return resolve(workingDir, /^~(?=$|[/\\])/.test(path) ? home + path.slice(1) : path);
}

/** The folders in one, as paths; none where there is no such folder. */
export function foldersIn(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith("."))
      .map(({ name }) => join(path, name))
      .sort();
  } catch {
    return [];
  }
}

export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** A program's path, or undefined. */
export function onPath(command: string, env: NodeJS.ProcessEnv): string | undefined {
  const names = process.platform === "win32" ? [`${command}.exe`, `${command}.bat`] : [command];
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isExecutable);
}

/** Links followed as far as the path exists. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (!isAbsolute(way) && way.split(/[/\\]/)[0] !== "..");
}
