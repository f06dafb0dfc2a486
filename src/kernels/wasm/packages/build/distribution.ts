import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../../../errors.ts";
import type { Sources } from "../../sources.ts";

/** Pyodide's own packages: the address of their files, and the lock that comes with Pyodide. */
export interface Distribution {
  url: string;
  packages: Record<string, LockedPackage>;
  /** Changes with the lock. */
  hash: string;
}

export interface LockedPackage {
  name: string;
  version: string;
  file_name: string;
  sha256: string;
  imports: string[];
}

/** The lock is always the one that came with Pyodide: another server must have identical files. */
export function readDistribution(sources: Sources, baseUrl: string | undefined): Distribution {
  const lock = readFileSync(join(sources.pyodideDir, "pyodide-lock.json"), "utf8");
  const { packages } = JSON.parse(lock) as { packages: Record<string, LockedPackage> };
  const url = baseUrl ?? usualUrl(sources);
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new CellwrightError("invalid_input", `--pyodide-base-url is not an http or https address: ${url}`);
  }
  return {
    url: url.endsWith("/") ? url : `${url}/`,
    packages,
    hash: createHash("sha256").update(lock).digest("hex"),
  };
}

/** The default address is in Pyodide's own code, with its version. */
function usualUrl(sources: Sources): string {
  const program = readFileSync(join(sources.pyodideDir, "pyodide.mjs"), "utf8");
  const template = /packageBaseUrl\s*\?\?\s*`(https:[^`]+)`/.exec(program)?.[1];
  if (!template) throw new Error("Pyodide does not say where its distribution is");
  return template.replace(/\$\{[^}]*\}/, sources.versions.pyodide);
}
