import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { LOCAL_OWNER } from "../engine/sessions/sessions.ts";
import type { Options } from "../options/options.ts";
import { MIN_TOKEN_CHARS } from "../own-token.ts";
import { HttpError } from "./body.ts";
import { isLoopback } from "./hosts.ts";
import { createTokenRateLimit, type TokenRateLimit } from "./token-rate-limit.ts";

/** Identifies the owner of a request. Undefined: not authenticated. */
export type Authenticate = (request: IncomingMessage) => { owner: string } | undefined;

interface Token {
  owner: string;
  digest: Buffer;
  /** Too long to guess by brute force, so it is not affected by the rate limit of its address. */
  isBeyondGuessing: boolean;
}

/** The length of `openssl rand -hex 16`; generated tokens are longer. */
const BEYOND_GUESSING_CHARS = 32;

/**
 * Bearer tokens from `--auth-token [NAME=]TOKEN`. Without any, every request belongs to the local owner. Throws
 * HttpError 429 when an address has tried too many wrong tokens.
 */
export function createAuthenticate(
  authTokens: string[],
  rateLimit: TokenRateLimit = createTokenRateLimit(),
): Authenticate {
  const tokens = authTokens.map((entry): Token => {
    const { name, token } = splitToken(entry);
    const isBeyondGuessing = token.length >= BEYOND_GUESSING_CHARS;
    return { owner: name ?? LOCAL_OWNER, digest: digestOf(token), isBeyondGuessing };
  });
  if (tokens.length === 0) return () => ({ owner: LOCAL_OWNER });
  return ({ headers, socket }) => {
    const given = /^Bearer +([^\s]+)$/i.exec(headers.authorization ?? "")?.[1];
    if (given === undefined) return undefined;
    const address = socket?.remoteAddress ?? "";
    const waitSeconds = rateLimit.waitSeconds(address);
    const digest = digestOf(given);
    // Compares with all tokens, so that the time taken reveals nothing.
    const matching = tokens.filter((token) => timingSafeEqual(token.digest, digest));
    const [token] = waitSeconds > 0 ? matching.filter(({ isBeyondGuessing }) => isBeyondGuessing) : matching;
    if (token) return { owner: token.owner };
    if (waitSeconds > 0) {
      throw new HttpError(429, `Too many wrong tokens from this address. Try again in ${waitSeconds} s.`, {
        "retry-after": String(waitSeconds),
      });
    }
    rateLimit.wrong(address);
    return undefined;
  };
}

/** Why it would be unsafe to start the server with these options; undefined if it is safe. */
export function checkExposure(
  options: Pick<Options, "host" | "authToken" | "insecure" | "jail"> & Partial<Pick<Options, "allowNet">>,
): string | undefined {
  const entries = options.authToken.map(splitToken);
  if (entries.some(({ token }) => /^=*$/.test(token))) {
    return "An --auth-token has no token: write NAME=TOKEN or TOKEN. A TOKEN must not end with `=`.";
  }
  if (entries.some(({ name }) => name === "")) return "An --auth-token has an empty NAME: write NAME=TOKEN or TOKEN.";
  if (new Set(entries.map(({ token }) => token)).size < entries.length) {
    return "Two --auth-token have the same TOKEN: give each NAME its own.";
  }
  if (entries.some(({ token }) => token.length < MIN_TOKEN_CHARS)) {
    return `An --auth-token is shorter than ${MIN_TOKEN_CHARS} characters, so it could be guessed: use a random one, such as \`openssl rand -hex 32\` prints.`;
  }
  if (options.insecure && entries.length === 0 && options.jail !== "none" && options.allowNet?.includes("host")) {
    return "--allow-net=host lets code reach this server's own port, and --insecure lets it in without a token: remove one of them.";
  }
  if (options.insecure || isLoopback(options.host)) return undefined;
  if (options.jail === "none") {
    return `--jail none gives code all your rights, and --host ${options.host} can be reached from other machines: remove one of them, or add --insecure to allow it.`;
  }
  if (entries.length > 0) return undefined;
  return `--host ${options.host} can be reached from other machines, and every client can run code: set CELLWRIGHT_AUTH_TOKEN or --auth-token @FILE, or --insecure if a proxy in front of it authenticates clients.`;
}

function splitToken(entry: string): { name?: string; token: string } {
  const at = entry.indexOf("=");
  return at < 0 ? { token: entry } : { name: entry.slice(0, at), token: entry.slice(at + 1) };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
