import { normalRequirement } from "../../../packages/requirement.ts";
import { packageError } from "./failure.ts";

/** An installing line of a cell, as found by `python/commands/pip_lines.py`. */
export interface PipLine {
  text: string;
  /** The arguments of `pip install`; null if the line is more than a plain command. */
  words: string[] | null;
}

export interface WantedPackages {
  requirements: string[];
  upgrade: boolean;
}

/** Options without effect here, or that ask for the default. */
const harmless = new Set([
  ...[
    "-q",
    "-qq",
    "-qqq",
    "--quiet",
    "-v",
    "--verbose",
    "--user",
    "--system",
    "--no-input",
    "--no-cache-dir",
    "--no-cache",
  ],
  ...[
    "--break-system-packages",
    "--disable-pip-version-check",
    "--prefer-binary",
    "--no-color",
    "--no-warn-script-location",
  ],
  ...["--only-binary=:all:", "--progress-bar=off", "--no-progress", "-y", "--yes"],
]);
/** The same, with an argument. */
const harmlessPairs = new Map([
  ["--only-binary", ":all:"],
  ["--progress-bar", "off"],
]);
const upgrading = new Set(["-U", "--upgrade", "-qU", "-Uq"]);

/** Parses a line's arguments. Throws `package_error` for unsupported ones. */
export function wantedOf({ text, words }: PipLine): WantedPackages {
  if (!words) throw refused(text, "it is more than a list of packages");
  const wanted: WantedPackages = { requirements: [], upgrade: false };
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? "";
    if (upgrading.has(word)) wanted.upgrade = true;
    else if (harmlessPairs.get(word) === words[at + 1] && words[at + 1] !== undefined) at += 1;
    else if (word.startsWith("-") && !harmless.has(word)) throw refused(text, reasonAgainst(word));
    else if (!word.startsWith("-")) wanted.requirements.push(requirementIn(word, text));
  }
  if (wanted.requirements.length === 0) throw refused(text, "it names no package");
  return wanted;
}

function requirementIn(word: string, text: string): string {
  try {
    return normalRequirement(word);
  } catch (error) {
    throw refused(text, (error as Error).message.replace(/\.$/, ""));
  }
}

function reasonAgainst(option: string): string {
  if (/^(-r|--requirement)/.test(option)) return "requirement files are not supported; name the packages";
  if (/^(-e|--editable)/.test(option)) return "editable installs are not supported, only wheels of the package index";
  if (/^(-i|--index-url|--extra-index-url|--default-index|--index|-f|--find-links)/.test(option)) {
    return "the package index is chosen by the operator of Cellwright (--package-index)";
  }
  return `\`${option.slice(0, 60)}\` is not a supported option`;
}

function refused(text: string, why: string): Error {
  return packageError(
    `\`${text.length > 200 ? `${text.slice(0, 200)}…` : text}\` was not run: ${why}.`,
    "Write a line that is only `%pip install NAME`, with versions and -U or -q if wanted, or use install_packages.",
  );
}
