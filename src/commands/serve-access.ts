import { readFile } from "node:fs/promises";
import { keptToken } from "../data-folders.ts";
import { checkExposure } from "../http/auth.ts";
import { OptionError, type Options } from "../options.ts";

/** What clients of a server have to show. */
export interface Access {
  /** As `--auth-token` has them. Empty: nothing. */
  tokens: string[];
  /** The one that was made here, to be shown to the user. Those that the user has set are known already. */
  made?: string;
}

/** The tokens that were set, or else the data folder's own. Throws OptionError where a server must not be started so. */
export async function openAccess(options: Options): Promise<Access> {
  const tokens = await setTokens(options);
  const refusal = checkExposure({ ...options, authToken: tokens });
  if (refusal) throw new OptionError(refusal);
  if (tokens.length > 0 || options.insecure) return { tokens };
  const made = await keptToken(options.dataDir, "auth-token");
  return { tokens: [made], made };
}

/** From `--auth-token` and `--auth-token-file`. */
async function setTokens({ authToken, authTokenFile }: Options): Promise<string[]> {
  if (authTokenFile === undefined) return authToken;
  const text = await readFile(authTokenFile, "utf8").catch((error) => {
    throw new OptionError(`--auth-token-file: \`${authTokenFile}\` cannot be read (${error.code ?? error.message}).`);
  });
  const lines = text.split("\n").map((line) => line.trim());
  const tokens = lines.filter((line) => line !== "" && !line.startsWith("#"));
  // What stands there is not shown: it may be a token.
  if (tokens.length === 0) throw new OptionError(`--auth-token-file: \`${authTokenFile}\` holds no token.`);
  const wrong = lines.findIndex((line) => !line.startsWith("#") && /[\s,]/.test(line));
  if (wrong >= 0) {
    throw new OptionError(`--auth-token-file: line ${wrong + 1} of \`${authTokenFile}\` is not [NAME=]TOKEN.`);
  }
  return [...authToken, ...tokens];
}
