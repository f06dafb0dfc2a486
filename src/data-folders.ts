import { join, resolve } from "node:path";
import { defaultOptions, OptionError, type Options } from "./options.ts";
import { ownToken } from "./own-token.ts";

/** Set by `cellwright pool` for the sandboxes that it starts: the data folder that theirs are in. */
export const POOL_DATA_DIR = "CELLWRIGHT_POOL_DATA_DIR";

/**
 * Where programs of this user keep sessions, tokens and sockets. Code sees none of them, wherever its own server keeps
 * its data: a sandbox of a pool must not show what belongs to the others.
 */
export function dataFolders(options: Pick<Options, "dataDir" | "sessionsDir">, env: NodeJS.ProcessEnv): string[] {
  const pool = env[POOL_DATA_DIR];
  const folders = [options.dataDir, options.sessionsDir, pool, defaultOptions().dataDir];
  return [...new Set(folders.flatMap((folder) => (folder ? [resolve(folder)] : [])))];
}

/** A token of a data folder, made when it is first asked for: of its server, or of its pools. */
export async function keptToken(dataDir: string, name: "auth-token" | "pool-token"): Promise<string> {
  try {
    return await ownToken(join(dataDir, name));
  } catch (error) {
    throw new OptionError(`No token can be kept: ${(error as Error).message}.`);
  }
}
