import { statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { readText, repositoriesIn } from "./git-links.ts";

/** Absolute paths. */
export interface PathsInGitConfig {
  /** Existing or not. */
  folders: string[];
  files: string[];
}

/**
 * Paths in a folder that git's configuration makes it run or read: hooks outside of `.git`, included files (existing or
 * not), existing programs of filters and similar. What those programs load is not known.
 */
export function pathsInGitConfig(root: string, env: NodeJS.ProcessEnv = process.env): PathsInGitConfig {
  const folders = new Set<string>();
  const read = new Set<string>();
  for (const { worktree, gitDir } of repositoriesIn(root)) {
    const files = [...ownFiles(gitDir), ...filesOfUser(env)];
    // Grows with each include.
    for (const file of files) {
      for (const { key, value } of settingsIn(readText(file))) {
        if (isInclude(key)) {
          const included = resolve(dirname(file), expandHome(value));
          read.add(included);
          if (!files.includes(included)) files.push(included);
        } else if (key === "core.hookspath") folders.add(resolve(worktree, expandHome(value)));
        else if (!startsNothing(key)) for (const path of filesNamedIn(value, worktree)) read.add(path);
      }
    }
  }
  const isWithin = (path: string) => path === root || path.startsWith(`${root}/`);
  return { folders: [...folders].filter(isWithin), files: [...read].filter(isWithin) };
}

/** A linked worktree shares the configuration of the main one. */
function ownFiles(gitDir: string): string[] {
  const common = readText(join(gitDir, "commondir")).trim();
  return [join(resolve(gitDir, common), "config"), join(gitDir, "config.worktree")];
}

function filesOfUser({ XDG_CONFIG_HOME: config }: NodeJS.ProcessEnv): string[] {
  const own = config || join(homedir(), ".config");
  return ["/etc/gitconfig", join(own, "git/config"), join(homedir(), ".gitconfig")];
}

function isInclude(key: string): boolean {
  // Conditions count as true.
  return key === "include.path" || /^includeif\..*\.path$/s.test(key);
}

/** Settings that never start a program: names, addresses, branches. */
function startsNothing(key: string): boolean {
  return /^(remote|branch|submodule|user|url|extensions)\./.test(key);
}

/** Commands run in the worktree; only a word with a slash is a file there, others are found on the PATH. */
function filesNamedIn(value: string, worktree: string): string[] {
  return value
    .split(/[\s'"`;|&()<>$=!]+/)
    .filter((word) => word.includes("/"))
    .map((word) => resolve(worktree, expandHome(word)))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
}

function expandHome(path: string): string {
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
}

/** Parses a configuration file (git-config, "Syntax"). Keys are lower case, except for quoted subsections. */
function* settingsIn(text: string): Generator<{ key: string; value: string }> {
  let section = "";
  for (const line of text.replace(/\\\r?\n/g, "").split(/\r?\n/)) {
    const head = /^\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]/s.exec(line);
    if (head) {
      const [, name = "", sub] = head;
      section = sub === undefined ? name.toLowerCase() : `${name.toLowerCase()}.${sub.replace(/\\(.)/gs, "$1")}`;
    }
    // A setting may follow its section on the same line.
    const setting = /^\s*([a-z][\w-]*)\s*=\s*(.*)$/is.exec(head ? line.slice(head[0].length) : line);
    if (setting) yield { key: `${section}.${setting[1]?.toLowerCase()}`, value: unquoted(setting[2] ?? "") };
  }
}

const escapes: Record<string, string> = { n: "\n", t: "\t", b: "\b" };

/** Without quotes and trailing comment. */
function unquoted(text: string): string {
  let value = "";
  let isQuoted = false;
  for (const [part, escaped] of text.matchAll(/\\(.)|./gs)) {
    if (escaped !== undefined) value += escapes[escaped] ?? escaped;
    else if (part === '"') isQuoted = !isQuoted;
    else if (!isQuoted && (part === "#" || part === ";")) break;
    else value += part;
  }
  return value.trim();
}
