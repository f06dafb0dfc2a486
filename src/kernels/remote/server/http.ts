import { once } from "node:events";
import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";

/** Timeout of a REST request. */
const LIMIT_MS = 30_000;
/** The largest answers are lists of kernels. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

export interface HttpRequest {
  method: "GET" | "POST" | "DELETE";
  url: string;
  headers: Record<string, string>;
  body?: string;
  signal?: AbortSignal | undefined;
}

/**
 * One request on its own connection: a kept-alive one may have died with its server. Redirects are not followed,
 * because they would receive the token. Throws Node's error if there is no answer.
 */
export async function askHttp({ method, url, headers, body, signal }: HttpRequest) {
  const limit = AbortSignal.timeout(LIMIT_MS);
  const both = signal ? AbortSignal.any([signal, limit]) : limit;
  both.throwIfAborted();
  const options = { method, headers, agent: false, signal: both };
  const asked = (url.startsWith("https:") ? secureRequest : plainRequest)(url, options);
  // It can also fail after its answer has started; reading the answer reports that.
  asked.on("error", () => {});
  try {
    asked.end(body);
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of answer) {
      size += piece.length;
      if (size > MAX_ANSWER_BYTES) throw new Error("its answer is too long");
      pieces.push(piece);
    }
    return { status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString() };
  } catch (error) {
    both.throwIfAborted();
    throw error;
  }
}

/** Whether the request failed because the certificate is not trusted. */
export function isAboutCertificate(error: unknown): boolean {
  return /CERT|LEAF_SIGNATURE/.test((error as NodeJS.ErrnoException).code ?? "");
}

/** Why the request failed, as part of a sentence. */
export function whyNoAnswer(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException;
  if (name === "TimeoutError") return `it did not answer within ${LIMIT_MS / 1000} s`;
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "its host name cannot be resolved";
  if (code === "ECONNRESET") return "it closed the connection";
  return (message || code || "it does not answer").replace(/\.$/, "");
}
