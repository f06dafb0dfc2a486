import { join, resolve } from "node:path";
import { ownToken } from "../own-token.ts";
import { defaultOptions, OptionError, type Options } from "./options.ts";

/** Set by `cellwright pool` for its sandboxes: the data folder that contains theirs. */
export const POOL_DATA_DIR = "CELLWRIGHT_POOL_DATA_DIR";

/**
 * All data folders of this user's servers: sessions, tokens and sockets. Code must not see any of them: a sandbox of a
 * pool must not expose data of the others.
 */
export function dataFolders(options: Pick<Options, "dataDir" | "sessionsDir">, env: NodeJS.ProcessEnv): string[] {
  const pool = env[POOL_DATA_DIR];
  const folders = [options.dataDir, options.sessionsDir, pool, defaultOptions().dataDir];
  return [...new Set(folders.flatMap((folder) => (folder ? [resolve(folder)] : [])))];
}

/** A data folder's token for `serve` or for pools, generated on first use. */
export async function keptToken(dataDir: string, name: "auth-token" | "pool-token"): Promise<string> {
  try {
    return await ownToken(join(dataDir, name));
  } catch (error) {
    throw new OptionError(`Cannot store a token: ${(error as Error).message}.`);
  }
}
