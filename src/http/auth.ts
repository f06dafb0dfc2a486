import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Options } from "../options.ts";
import { LOCAL_OWNER } from "../session/sessions.ts";
import { isLoopback } from "./hosts.ts";

/** Who a request is from. `undefined`: nobody we know. */
export type Authenticate = (request: IncomingMessage) => { owner: string } | undefined;

interface Token {
  owner: string;
  digest: Buffer;
}

/** Bearer tokens from `--auth-token [NAME=]TOKEN`. Without any, every request is from the local owner. */
export function createAuthenticate(authTokens: string[]): Authenticate {
  const tokens = authTokens.map((entry): Token => {
    const { name, token } = splitToken(entry);
    return { owner: name ?? LOCAL_OWNER, digest: digestOf(token) };
  });
  if (tokens.length === 0) return () => ({ owner: LOCAL_OWNER });
  return ({ headers }) => {
    const given = /^Bearer +([^\s]+)$/i.exec(headers.authorization ?? "")?.[1];
    if (given === undefined) return undefined;
    const digest = digestOf(given);
    // All are compared, whichever fits: the time taken tells nothing.
    const matching = tokens.filter((token) => timingSafeEqual(token.digest, digest));
    return matching[0] && { owner: matching[0].owner };
  };
}

/** Why this server must not be started as it is set up, in a sentence; undefined if it may. */
export function checkExposure(options: Pick<Options, "host" | "authToken" | "insecure" | "jail">): string | undefined {
  const entries = options.authToken.map(splitToken);
  if (entries.some(({ token }) => /^=*$/.test(token))) {
    return "An --auth-token has no token: write NAME=TOKEN or TOKEN, and leave out `=` at the end of a TOKEN.";
  }
  if (entries.some(({ name }) => name === "")) return "An --auth-token has an empty NAME: write NAME=TOKEN or TOKEN.";
  if (new Set(entries.map(({ token }) => token)).size < entries.length) {
    return "Two --auth-token have the same TOKEN: give each NAME its own.";
  }
  if (options.insecure || isLoopback(options.host)) return undefined;
  if (options.jail === "none") {
    return `--jail none lets code do all that you can, and --host ${options.host} can be reached from other machines: leave one of them out, or add --insecure if that is what you want.`;
  }
  if (entries.length > 0) return undefined;
  return `--host ${options.host} can be reached from other machines, and whoever reaches it can run code: set --auth-token, or --insecure if something in front of it decides who may.`;
}

function splitToken(entry: string): { name?: string; token: string } {
  const at = entry.indexOf("=");
  return at < 0 ? { token: entry } : { name: entry.slice(0, at), token: entry.slice(at + 1) };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
