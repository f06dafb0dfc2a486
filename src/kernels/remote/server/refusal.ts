import { inflateSync } from "node:zlib";
import { CellwrightError, type ErrorCode } from "../../../errors.ts";

/** Why the helper refused an operation; see `Refusal` in python/remote-helper/helper_walk.py. */
export type Refusal =
  | { kind: "system"; code: string; said: string }
  | { kind: "outside"; why: string }
  | { kind: "missing"; name: string; there: string[] }
  | { kind: "wrong"; what: string }
  | { kind: "too_large"; size: number }
  | { kind: "in_use" }
  | { kind: "gap" }
  | { kind: "bug"; what: string };

/** A refusal by the helper. Callers that know the context word it better than this. */
export class HelperRefusal extends CellwrightError {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, { operation, server }: { operation: string; server: string }) {
    const { code, what, hint } = inGeneral(refusal);
    super(code, `The Jupyter server at ${server} could not do \`${operation}\`: ${what}.`, { hint });
    this.refusal = refusal;
  }
}

function inGeneral(refusal: Refusal): { code: ErrorCode; what: string; hint?: string } {
  switch (refusal.kind) {
    case "system":
      if (refusal.code === "ENOSPC" || refusal.code === "EDQUOT") {
        return {
          code: "storage_full",
          what: "its disk is full",
          hint: "Free space on the disk of the server's user.",
        };
      }
      return {
        code: "server_refused",
        what: `${refusal.code} (${refusal.said})`,
        hint: "The server's user must be able to write to the folder of its sessions (`~/cellwright` unless a toolset sets another).",
      };
    case "in_use":
      return { code: "session_in_use", what: "another Cellwright uses the session" };
    default:
      return { code: "internal", what: `it refused (${JSON.stringify(refusal).slice(0, 500)})` };
  }
}

/** The value in an answer of `python/remote-helper/helper.py`. Throws the refusal or bug that it reports instead. */
export function valueIn(answer: string, about: { operation: string; server: string }): unknown {
  const parsed = JSON.parse(answer);
  if (typeof parsed.packed === "string") {
    return valueIn(
      inflateSync(Buffer.from(parsed.packed, "base64"), { maxOutputLength: MAX_UNPACKED }).toString(),
      about,
    );
  }
  if (parsed.refusal) throw new HelperRefusal(parsed.refusal, about);
  if ("value" in parsed) return parsed.value;
  throw new CellwrightError(
    "internal",
    `The helper at ${about.server} failed at \`${about.operation}\`: ${parsed.bug}`,
  );
}

/** Limit: ten thousand entries with paths of 4 KiB. */
const MAX_UNPACKED = 64_000_000;
