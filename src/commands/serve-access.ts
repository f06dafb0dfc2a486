import { readFile } from "node:fs/promises";
import { checkExposure } from "../http/auth.ts";
import { keptToken } from "../options/data-folders.ts";
import { OptionError, type Options } from "../options/options.ts";

/** How clients of a server authenticate. */
export interface Access {
  /** In the form of `--auth-token`. Empty: no authentication. */
  tokens: string[];
  /** The generated token, to show to the user; absent if the user has set tokens. */
  made?: string;
}

/** The configured tokens, else the data folder's. Throws OptionError if the server would be open to other machines. */
export async function openAccess(options: Options): Promise<Access> {
  const tokens = await setTokens(options);
  const refusal = checkExposure({ ...options, authToken: tokens });
  if (refusal) throw new OptionError(refusal);
  if (tokens.length > 0 || options.insecure) return { tokens };
  const made = await keptToken(options.dataDir, "auth-token");
  return { tokens: [made], made };
}

/** The tokens of `--auth-token`; `@FILE` stands for the lines of a file. */
async function setTokens({ authToken }: Options): Promise<string[]> {
  const tokens = authToken.map((token) => (token.startsWith("@") ? tokensIn(token.slice(1)) : [token]));
  return (await Promise.all(tokens)).flat();
}

async function tokensIn(file: string): Promise<string[]> {
  const text = await readFile(file, "utf8").catch((error) => {
    throw new OptionError(`--auth-token: cannot read \`${file}\` (${error.code ?? error.message}).`);
  });
  const lines = text.split("\n").map((line) => line.trim());
  const tokens = lines.filter((line) => line !== "" && !line.startsWith("#"));
  // The line is not shown: it may be a token.
  if (tokens.length === 0) throw new OptionError(`--auth-token: \`${file}\` holds no token.`);
  const wrong = lines.findIndex((line) => !line.startsWith("#") && /[\s,]/.test(line));
  if (wrong >= 0) {
    throw new OptionError(`--auth-token: line ${wrong + 1} of \`${file}\` is not [NAME=]TOKEN.`);
  }
  return tokens;
}
