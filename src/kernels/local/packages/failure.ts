import { CellwrightError } from "../../../errors.ts";
import { normalName } from "../../../packages/requirement.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import type { GatewayFacts } from "./gateway.ts";
import type { InstallResult } from "./run.ts";

export function packageError(message: string, hint: string, cause?: unknown): CellwrightError {
  return new CellwrightError("package_error", message, { hint, cause });
}

export interface FailedInstall {
  requirements: string[];
  environment: PythonEnvironment;
  facts: GatewayFacts;
  /** Whether an index is configured. */
  hasIndex: boolean;
}

type Failure = Exclude<InstallResult, { failure?: undefined }>;
interface Reason {
  why: string;
  hint: string;
}

const OTHER_VERSION = "Leave the version out, or ask for one that exists.";
const CHECK_NETWORK =
  "Check the network, HTTPS_PROXY and the certificates (SSL_CERT_FILE), name an index with --package-index, or put " +
  "wheels into a folder and name it with --package-dir.";

/** Why an installation failed: from the gateway's record, or else from the installer's output. */
export function failureOf(failure: Failure, install: FailedInstall): CellwrightError {
  const { why, hint } = reasonOf(failure, install);
  return packageError(`Cannot install ${install.requirements.join(", ")}. ${why}`, hint);
}

function reasonOf(failure: Failure, install: FailedInstall): Reason {
  const { environment } = install;
  if (failure.failure === "no-installer") {
    return {
      why: `Environment \`${environment.name}\` has no pip, or one older than 22.2, and there is no uv.`,
      hint: "Install uv on this machine, or pip into the environment: `python -m ensurepip --upgrade`.",
    };
  }
  if (failure.failure === "limit") {
    return {
      why: `${failure.why} The limits are --disk-mb for a session's packages and --memory-mb for the installer.`,
      hint: "Ask for fewer or smaller packages, or start Cellwright with higher limits. Nothing was installed.",
    };
  }
  if (failure.failure === "ended") {
    return { why: `The installer failed: ${plain(failure.how)}`, hint: "Try again." };
  }
  return fromIndex(failure.said, install) ?? fromWords(failure.said, install);
}

function fromIndex(said: string, { facts, hasIndex, environment }: FailedInstall): Reason | undefined {
  const unreachable = [...facts.pages].find(([, page]) => page.failure !== undefined && !page.found);
  if (unreachable) {
    const [name, { failure = "" }] = unreachable;
    return { why: `The package index could not be queried for ${name}: ${failure}.`, hint: CHECK_NETWORK };
  }
  const [file] = facts.failedFiles;
  if (file) return { why: `${file.name} could not be fetched: ${file.failure}.`, hint: CHECK_NETWORK };
  const name = missingOf(said, facts);
  if (name === undefined) return undefined;
  const page = facts.pages.get(name);
  if (!page?.found) {
    const where = hasIndex
      ? "The package index does not have"
      : "No package index is used, and no folder of wheels has";
    return {
      why: `${where} ${name}.`,
      hint: "Check the spelling: the name to install is not always the name to import.",
    };
  }
  const versions = /\(from versions: ([^)]*)\)/.exec(said)?.[1];
  if (versions === "none" || /no (usable |compatible )?wheels|no wheels with a matching/i.test(said)) {
    return {
      why: `The package index has ${name}, but no wheel of it for Python ${environment.version} on this machine, and nothing is built from source here.`,
      hint: "Ask for another version, or install it into the environment yourself.",
    };
  }
  return { why: `No version of ${name} matches the request${newest(versions)}.`, hint: OTHER_VERSION };
}

/** The package that the installer reports as missing. */
function missingOf(said: string, facts: GatewayFacts): string | undefined {
  const pip = /No matching distribution found for ([A-Za-z0-9._-]+)/.exec(said)?.[1];
  const uv =
    /Because ([A-Za-z0-9._-]+) was not found/.exec(said)?.[1] ??
    /there (?:is|are) no versions? of ([A-Za-z0-9._-]+?)(?:[=<>!~[\s]|$)/.exec(said)?.[1] ??
    /Because (?:only )?([A-Za-z0-9._-]+?)(?:[=<>!~][^\s]*)? (?:is available|has no)/.exec(said)?.[1];
  const named = pip ?? uv;
  if (named !== undefined) return normalName(named);
  return [...facts.pages].find(([, page]) => !page.found)?.[0];
}

function newest(versions: string | undefined): string {
  const known = versions?.split(", ").slice(-5) ?? [];
  return known.length > 0 ? `; the newest are ${known.join(", ")}` : "";
}

function fromWords(said: string, { requirements }: FailedInstall): Reason {
  if (/File too large|EFBIG|os error 27/.test(said)) {
    return {
      why: "A file of it is larger than --disk-mb allows.",
      hint: "Ask for a smaller package, or start Cellwright with a higher --disk-mb. Nothing was installed.",
    };
  }
  if (/No space left on device|Disk quota/.test(said)) {
    return { why: "The disk is full.", hint: "Free some space, then try again." };
  }
  if (/conflicting dependencies|ResolutionImpossible|conclude that/.test(said)) {
    return {
      why: `The requirements conflict: ${plain(conflictIn(said)) || requirements.join(", ")}`,
      hint: "Leave out a version, or install one of the packages in a separate session.",
    };
  }
  if (/THESE PACKAGES DO NOT MATCH THE HASHES|Hash mismatch/i.test(said)) {
    return {
      why: "The hash of a file differs from the one on the index.",
      hint: "It may have been altered in transit. Try again; if that does not help, do not trust this server.",
    };
  }
  return { why: plain(said.trim().split("\n").slice(-5).join(" ")), hint: "Try again, or ask for another version." };
}

function conflictIn(said: string): string {
  const uv = /Because [\s\S]*/.exec(said)?.[0];
  if (uv) return uv;
  const lines = said.split("\n");
  const from = lines.findIndex((line) => /conflict is caused by/i.test(line));
  return from < 0
    ? ""
    : lines
        .slice(from + 1, from + 8)
        .filter((line) => /\S/.test(line))
        .join("; ");
}

/** Removes URLs, which are the gateway's, and terminal formatting. */
function plain(text: string): string {
  return text
    .replace(/https?:\/\/\S+/g, "…")
    .replace(/^(ERROR|error):\s*/gm, "")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 1_000);
}
