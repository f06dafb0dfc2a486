import { statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { readText, repositoriesIn } from "./git-links.ts";

/** Absolute paths. */
export interface PlacesInSettings {
  /** Existing or not. */
  folders: string[];
  files: string[];
}

/**
 * What git runs or obeys in a folder because its settings name it: hooks elsewhere than in `.git`, files that are included
 * if they exist, programs of filters and the like that do exist. What such a program loads in its turn is not known.
 */
export function placesInSettings(root: string, env: NodeJS.ProcessEnv = process.env): PlacesInSettings {
  const folders = new Set<string>();
  const read = new Set<string>();
  for (const { worktree, gitDir } of repositoriesIn(root)) {
    const files = [...ownFiles(gitDir), ...filesOfUser(env)];
    // It grows by what is included.
    for (const file of files) {
      for (const { key, value } of settingsIn(readText(file))) {
        if (isInclude(key)) {
          const included = resolve(dirname(file), atHome(value));
          read.add(included);
          if (!files.includes(included)) files.push(included);
        } else if (key === "core.hookspath") folders.add(resolve(worktree, atHome(value)));
        else if (!isOther(key)) for (const path of filesNamedIn(value, worktree)) read.add(path);
      }
    }
  }
  const isWithin = (path: string) => path === root || path.startsWith(`${root}/`);
  return { folders: [...folders].filter(isWithin), files: [...read].filter(isWithin) };
}

/** A worktree that was added shares the settings of the first one. */
function ownFiles(gitDir: string): string[] {
  const common = readText(join(gitDir, "commondir")).trim();
  return [join(resolve(gitDir, common), "config"), join(gitDir, "config.worktree")];
}

function filesOfUser({ XDG_CONFIG_HOME: config }: NodeJS.ProcessEnv): string[] {
  const own = config || join(homedir(), ".config");
  return ["/etc/gitconfig", join(own, "git/config"), join(homedir(), ".gitconfig")];
}

function isInclude(key: string): boolean {
  // Conditions are taken for met.
  return key === "include.path" || /^includeif\..*\.path$/s.test(key);
}

/** Names, addresses and branches, which nothing is started for. */
function isOther(key: string): boolean {
  return /^(remote|branch|submodule|user|url|extensions)\./.test(key);
}

/** Commands are run in the worktree; only a word with a slash is a file there, others are looked for on the PATH. */
function filesNamedIn(value: string, worktree: string): string[] {
  return value
    .split(/[\s'"`;|&()<>$=!]+/)
    .filter((word) => word.includes("/"))
    .map((word) => resolve(worktree, atHome(word)))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
}

function atHome(path: string): string {
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
}

/** What a file of settings says (git-config, "Syntax"), keys in small letters but for what is in quotes in a section. */
function* settingsIn(text: string): Generator<{ key: string; value: string }> {
  let section = "";
  for (const line of text.replace(/\\\r?\n/g, "").split(/\r?\n/)) {
    const head = /^\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]/.exec(line);
    if (head) {
      const [, name = "", sub] = head;
      section = sub === undefined ? name.toLowerCase() : `${name.toLowerCase()}.${sub.replace(/\\(.)/g, "$1")}`;
    }
    // A setting may stand behind its section.
    const setting = /^\s*([a-z][\w-]*)\s*=\s*(.*)$/i.exec(head ? line.slice(head[0].length) : line);
    if (setting) yield { key: `${section}.${setting[1]?.toLowerCase()}`, value: unquoted(setting[2] ?? "") };
  }
}

const escapes: Record<string, string> = { n: "\n", t: "\t", b: "\b" };

/** Without quotes, and without the comment at its end. */
function unquoted(text: string): string {
  let value = "";
  let isQuoted = false;
  for (const [part, escaped] of text.matchAll(/\\(.)|./g)) {
    if (escaped !== undefined) value += escapes[escaped] ?? escaped;
    else if (part === '"') isQuoted = !isQuoted;
    else if (!isQuoted && (part === "#" || part === ";")) break;
    else value += part;
  }
  return value.trim();
}
