import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { CellwrightError } from "../errors.ts";
import { findProgram, helperEnv } from "../process/programs.ts";

const run = promisify(execFile);

/** pip takes half a second; one that hangs must not block an installation. */
const PIP_TIMEOUT_MS = 15_000;

/** URL and credentials of a package index. */
export interface IndexAddress {
  /** Without credentials. */
  url: string;
  /** Value of the Authorization header, for the index's host only. */
  authorization?: string | undefined;
}

/** The index from an option or an environment variable; undefined if none is set. */
export function configuredIndex(option: string | undefined, env: NodeJS.ProcessEnv): IndexAddress | undefined {
  if (option) return indexAddress(option, "--package-index");
  if (env.PIP_INDEX_URL) return indexAddress(env.PIP_INDEX_URL, "PIP_INDEX_URL");
  // uv allows a name before the address.
  if (env.UV_DEFAULT_INDEX) return indexAddress(env.UV_DEFAULT_INDEX.replace(/^[\w.-]+=/, ""), "UV_DEFAULT_INDEX");
  return undefined;
}

/** The index that pip would use: from its configuration, else its default. Undefined without pip. */
export async function pipIndex(env: NodeJS.ProcessEnv): Promise<IndexAddress | undefined> {
  for (const pip of ["pip", "pip3"].map((name) => findProgram(name, env)).filter((path) => path !== undefined)) {
    const ask = async (...args: string[]): Promise<string> => {
      // Wide enough that the help does not wrap a URL.
      const options = { cwd: "/", env: { ...helperEnv(env), COLUMNS: "1000" }, timeout: PIP_TIMEOUT_MS };
      return (await run(pip, args, options).catch(() => ({ stdout: "" }))).stdout;
    };
    const configured = (await ask("config", "get", "global.index-url")).trim();
    if (configured) return indexAddress(configured, "pip's configuration");
    const fallback = /--index-url[^\n]*\(default (https?:\/\/[^\s)]+)\)/.exec(await ask("download", "--help"))?.[1];
    if (fallback) return indexAddress(fallback, "pip's default");
  }
  return undefined;
}

/** A percent-encoded part of a URL; unchanged if it is not valid. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Splits an index URL from `origin`. The error does not contain the URL: it may hold a password. */
export function indexAddress(text: string, origin: string): IndexAddress {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    throw new CellwrightError("invalid_input", `The package index in ${origin} is not an http or https URL.`, {
      hint: "Use the URL of a simple index, such as the one that pip uses.",
    });
  }
  const authorization = authorizationOf(url);
  url.username = "";
  url.password = "";
  return { url: url.href, ...(authorization && { authorization }) };
}

/** The header for the credentials in a URL; undefined without any. */
export function authorizationOf({ username, password }: URL): string | undefined {
  if (!username && !password) return undefined;
  return `Basic ${Buffer.from([username, password].map(decoded).join(":")).toString("base64")}`;
}
