import { CellwrightError } from "../../../errors.ts";
import type { InstallFailure } from "../deno/install/frames.ts";

/** Failures named in one message; the rest is only counted. */
const MAX_NAMED = 6;

export function packageError(message: string, hint: string, cause?: unknown): CellwrightError {
  return new CellwrightError("package_error", message, { hint, cause });
}

const NOT_HERE =
  'Use another package for the task, or a new session with env="managed", whose Python is not WebAssembly ' +
  "(`cellwright env create` creates that environment).";

const kinds: Record<InstallFailure["kind"], { why: (failure: InstallFailure) => string; hint: string }> = {
  requirement: {
    why: ({ name, detail }) => `\`${name}\` is not a requirement: ${detail}`,
    hint: "Write requirements as pip does: `sympy`, `pandas==3.0.2`, `plotly[express]>=6`.",
  },
  not_found: {
    why: ({ name, detail }) => `The package index does not have ${name}${detail && ` (${detail})`}`,
    hint: "Check the spelling: the name to install is not always the name to import.",
  },
  no_version: {
    why: ({ wanted, detail }) => `No version for this Python fits ${wanted}${detail && ` (${detail})`}`,
    hint: "Leave the version out, or ask for one that exists.",
  },
  no_wheel: {
    why: ({ wanted, detail }) =>
      `${wanted} cannot run in WebAssembly: the index has neither a pure Python wheel nor one built for Pyodide` +
      `${detail && ` (${detail})`}`,
    hint: NOT_HERE,
  },
  index_unreachable: {
    why: ({ name, detail }) => `The package index could not be queried for ${name}: ${detail}`,
    hint:
      "Check the network, HTTPS_PROXY and the certificates (SSL_CERT_FILE), name an index with --package-index, or put " +
      "wheels into a folder and name it with --package-dir.",
  },
  distribution_unreachable: {
    why: ({ name, detail }) =>
      `Only Pyodide's distribution has ${name} for WebAssembly, and it could not be reached: ${detail}`,
    hint:
      "Allow this machine to reach it, name a copy with --pyodide-base-url, or put the package's wheel into a folder " +
      "and name it with --package-dir. Packages that do not need it can still be installed.",
  },
  hash: {
    why: ({ name, detail }) => `${name} was refused: the hash of ${detail} differs from the expected one`,
    hint: "It may have been altered in transit. Try again; if that does not help, do not trust this server.",
  },
  address: {
    why: ({ name, detail }) => `${name} is requested from the URL ${detail}, but packages are only installed by name`,
    hint: "Put the wheel into a folder and name it with --package-dir.",
  },
  conflict: {
    why: ({ name, detail }) => `No version of ${name} satisfies all requirements: ${detail}`,
    hint: "Leave out a version, or install one of the packages in a separate session.",
  },
  unsafe: {
    why: ({ name, detail }) => `${name} was refused: ${detail}`,
    hint: "Do not use this file; a package has no reason to do this.",
  },
  broken: {
    why: ({ name, detail }) => `${name} could not be installed: ${detail}`,
    hint: "The file of this package is broken. Ask for another version.",
  },
};

/** One error for all failures; the hint is that of the first. */
export function failureOf(failures: InstallFailure[], requirements: string[]): CellwrightError {
  const grouped = groups(failures);
  const [first] = grouped;
  if (!first) return packageError("The installation failed without a reason.", "Try again.");
  const sentences = grouped
    .slice(0, MAX_NAMED)
    .map((failure) => `${kinds[failure.kind].why(failure)}${neededBy(failure)}.`);
  if (grouped.length > MAX_NAMED) sentences.push(`There are ${grouped.length - MAX_NAMED} more reasons.`);
  return packageError(`Cannot install ${requirements.join(", ")}. ${sentences.join(" ")}`, kinds[first.kind].hint);
}

/** Merges failures with the same reason and the same dependents into one with all names. */
function groups(failures: InstallFailure[]): InstallFailure[] {
  const byReason = new Map<string, InstallFailure & { names: string[] }>();
  for (const failure of failures) {
    const reason = JSON.stringify([failure.kind, failure.detail, failure.chain]);
    const group = byReason.get(reason);
    if (group && groupedKinds.includes(failure.kind)) group.names.push(failure.name);
    else byReason.set(group ? `${reason}${failure.name}` : reason, { ...failure, names: [failure.name] });
  }
  return [...byReason.values()].map((group) => ({ ...group, name: listed(group.names) }));
}

/** Failures whose message contains nothing but names and the detail. */
const groupedKinds: InstallFailure["kind"][] = ["not_found", "distribution_unreachable", "index_unreachable"];

/** `a, b and c`. */
function listed(names: string[]): string {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : (names[0] ?? "");
}

function neededBy({ chain }: InstallFailure): string {
  if (chain.length === 0) return "";
  const [last, ...others] = chain.toReversed();
  return ` (needed by ${last}${others.map((other) => `, which ${other} needs`).join("")})`;
}
