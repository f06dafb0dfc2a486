import { CellwrightError } from "../errors.ts";

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
const pattern = new RegExp(
  `^(?<name>${NAME})\\s*(?:\\[(?<extras>[^\\]]*)\\])?\\s*(?<versions>\\([^()]*\\)|[^;()[\\]]*?)\\s*(?:;(?<marker>.*))?$`,
  "s",
);
const version = /^(?:===\s*\S+|(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.!+*_-]+)$/;

/** Requirements as one list without order, repetition or spelling variants, so that the same wish is the same text. */
export function normalRequirements(requirements: string[]): string[] {
  const normal = requirements.map(normalRequirement);
  if (normal.length === 0) throw refused("No package is named.");
  return [...new Set(normal)].sort();
}

/** One requirement of PEP 508 in its usual spelling. Addresses, paths and pip's options are refused. */
export function normalRequirement(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") throw refused("A requirement is empty.");
  if (trimmed.startsWith("-")) throw refused(`\`${shown(trimmed)}\` is an option of pip, not a package.`);
  if (/^[^;]*@/.test(trimmed) || /^[^;]*:\/\//.test(trimmed)) {
    throw refused(`\`${shown(trimmed)}\` names an address. Packages are only installed by name.`);
  }
  if (/^[^;[(]*[/\\]/.test(trimmed) || /^[^;]*\.(whl|zip|tar\.gz)\s*$/.test(trimmed) || trimmed.startsWith(".")) {
    throw refused(`\`${shown(trimmed)}\` is a path. Packages are only installed by name.`);
  }
  const groups = pattern.exec(trimmed)?.groups;
  if (!groups?.name) throw refused(`\`${shown(trimmed)}\` is not a requirement.`);
  const extras = listed(groups.extras);
  if (extras.some((extra) => !new RegExp(`^${NAME}$`).test(extra))) {
    throw refused(`\`${shown(trimmed)}\` has an extra that is no name.`);
  }
  const versions = listed(groups.versions?.replace(/^\(([\s\S]*)\)$/, "$1"));
  const wrong = versions.find((part) => !version.test(part));
  if (wrong !== undefined)
    throw refused(`\`${shown(trimmed)}\` has a version that cannot be read: \`${shown(wrong)}\`.`);
  const marker = groups.marker?.trim().replace(/\s+/g, " ");
  if (marker === "") throw refused(`\`${shown(trimmed)}\` ends where a condition should follow.`);
  return (
    normalName(groups.name) +
    (extras.length > 0 ? `[${extras.map(normalName).sort().join(",")}]` : "") +
    versions
      .map((part) => part.replace(/\s+/g, ""))
      .sort()
      .join(",") +
    (marker === undefined ? "" : `; ${marker}`)
  );
}

/** The one spelling of a package's name (PEP 503). */
export function normalName(name: string): string {
  return name.replace(/[-_.]+/g, "-").toLowerCase();
}

function listed(text: string | undefined): string[] {
  const parts = (text ?? "").split(",").map((part) => part.trim());
  return parts.length === 1 && parts[0] === "" ? [] : parts;
}

function shown(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

function refused(message: string): CellwrightError {
  return new CellwrightError("invalid_input", message, {
    hint: "Write requirements as pip does: `sympy`, `pandas==3.0.2`, `plotly[express]>=6`. For files, use --package-dir.",
  });
}
