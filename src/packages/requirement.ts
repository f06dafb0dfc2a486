import { CellwrightError } from "../errors.ts";

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
const pattern = new RegExp(
  `^(?<name>${NAME})\\s*(?:\\[(?<extras>[^\\]]*)\\])?\\s*(?<versions>\\([^()]*\\)|[^;()[\\]]*?)\\s*(?:;(?<marker>.*))?$`,
  "s",
);
const version = /^(?:===\s*\S+|(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.!+*_-]+)$/;

/** Normalizes requirements: sorted, without duplicates or spelling variants, so that equal sets give equal text. */
export function normalRequirements(requirements: string[]): string[] {
  const normal = requirements.map(normalRequirement);
  if (normal.length === 0) throw refused("No packages were given.");
  return [...new Set(normal)].sort();
}

/** Normalizes one PEP 508 requirement. URLs, paths and options of pip are refused. */
export function normalRequirement(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") throw refused("A requirement is empty.");
  if (trimmed.startsWith("-")) throw refused(`\`${shown(trimmed)}\` is a pip option, not a package.`);
  if (/^[^;]*@/.test(trimmed) || /^[^;]*:\/\//.test(trimmed)) {
    throw refused(`\`${shown(trimmed)}\` contains a URL. Packages are only installed by name.`);
  }
  if (/^[^;[(]*[/\\]/.test(trimmed) || /^[^;]*\.(whl|zip|tar\.gz)\s*$/.test(trimmed) || trimmed.startsWith(".")) {
    throw refused(`\`${shown(trimmed)}\` is a path. Packages are only installed by name.`);
  }
  const groups = pattern.exec(trimmed)?.groups;
  if (!groups?.name) throw refused(`\`${shown(trimmed)}\` is not a requirement.`);
  const extras = listed(groups.extras);
  if (extras.some((extra) => !new RegExp(`^${NAME}$`).test(extra))) {
    throw refused(`\`${shown(trimmed)}\` has an invalid extra.`);
  }
  const versions = listed(groups.versions?.replace(/^\(([\s\S]*)\)$/, "$1"));
  const wrong = versions.find((part) => !version.test(part));
  if (wrong !== undefined) throw refused(`\`${shown(trimmed)}\` has an invalid version: \`${shown(wrong)}\`.`);
  const marker = groups.marker?.trim().replace(/\s+/g, " ");
  if (marker === "") throw refused(`\`${shown(trimmed)}\` has an empty marker after \`;\`.`);
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

/** The normalized name of a package (PEP 503). */
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
