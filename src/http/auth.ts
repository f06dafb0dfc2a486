import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Options } from "../options.ts";
import { MIN_TOKEN_CHARS } from "../own-token.ts";
import { LOCAL_OWNER } from "../session/sessions.ts";
import { HttpError } from "./body.ts";
import { createGuessBrake, type GuessBrake } from "./guess-brake.ts";
import { isLoopback } from "./hosts.ts";

/** Who a request is from. `undefined`: nobody we know. */
export type Authenticate = (request: IncomingMessage) => { owner: string } | undefined;

interface Token {
  owner: string;
  digest: Buffer;
  /** Too long to be found by trying. It is never refused for what others tried from the same address. */
  isBeyondGuessing: boolean;
}

/** What `openssl rand -hex 16` prints, and less than what we make ourselves. */
const BEYOND_GUESSING_CHARS = 32;

/**
 * Bearer tokens from `--auth-token [NAME=]TOKEN`. Without any, every request is from the local owner. Throws HttpError
 * 429 where an address has tried too many wrong ones.
 */
export function createAuthenticate(authTokens: string[], brake: GuessBrake = createGuessBrake()): Authenticate {
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
    const waitSeconds = brake.waitSeconds(address);
    const digest = digestOf(given);
    // All are compared, whichever fits: the time taken tells nothing.
    const matching = tokens.filter((token) => timingSafeEqual(token.digest, digest));
    const [token] = waitSeconds > 0 ? matching.filter(({ isBeyondGuessing }) => isBeyondGuessing) : matching;
    if (token) return { owner: token.owner };
    if (waitSeconds > 0) {
      throw new HttpError(429, `Too many wrong tokens from this address. Try again in ${waitSeconds} s.`, {
        "retry-after": String(waitSeconds),
      });
    }
    brake.wrong(address);
    return undefined;
  };
}

/** Why this server must not be started as it is set up, in a sentence; undefined if it may. */
export function checkExposure(
  options: Pick<Options, "host" | "authToken" | "insecure" | "jail"> & Partial<Pick<Options, "allowNet">>,
): string | undefined {
  const entries = options.authToken.map(splitToken);
  if (entries.some(({ token }) => /^=*$/.test(token))) {
    return "An --auth-token has no token: write NAME=TOKEN or TOKEN, and leave out `=` at the end of a TOKEN.";
  }
  if (entries.some(({ name }) => name === "")) return "An --auth-token has an empty NAME: write NAME=TOKEN or TOKEN.";
  if (new Set(entries.map(({ token }) => token)).size < entries.length) {
    return "Two --auth-token have the same TOKEN: give each NAME its own.";
  }
  if (entries.some(({ token }) => token.length < MIN_TOKEN_CHARS)) {
    return `An --auth-token is shorter than ${MIN_TOKEN_CHARS} characters, so it could be guessed: use a random one, such as \`openssl rand -hex 32\` prints.`;
  }
  if (options.insecure && entries.length === 0 && options.jail !== "none" && options.allowNet?.includes("host")) {
    return "--allow-net=host lets code reach this server's own port, and --insecure lets it in there without a token: leave one of them out.";
  }
  if (options.insecure || isLoopback(options.host)) return undefined;
  if (options.jail === "none") {
    return `--jail none lets code do all that you can, and --host ${options.host} can be reached from other machines: leave one of them out, or add --insecure if that is what you want.`;
  }
  if (entries.length > 0) return undefined;
  return `--host ${options.host} can be reached from other machines, and whoever reaches it can run code: set CELLWRIGHT_AUTH_TOKEN or --auth-token-file, or --insecure if something in front of it decides who may.`;
}

function splitToken(entry: string): { name?: string; token: string } {
  const at = entry.indexOf("=");
  return at < 0 ? { token: entry } : { name: entry.slice(0, at), token: entry.slice(at + 1) };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
