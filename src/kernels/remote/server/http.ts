import { request as plainRequest } from "node:http";
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
  const request = url.startsWith("https:") ? secureRequest : plainRequest;
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const stop = () => asked.destroy(both.reason);
    const asked = request(url, { method, headers, agent: false }, (answer) => {
      const pieces: Buffer[] = [];
      let size = 0;
      answer.on("data", (piece: Buffer) => {
        size += piece.length;
        if (size > MAX_ANSWER_BYTES) asked.destroy(new Error("its answer is too long"));
        else pieces.push(piece);
      });
      answer.once("end", () => {
        both.removeEventListener("abort", stop);
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString() });
      });
      answer.once("error", reject);
    });
    asked.once("error", (error) => {
      both.removeEventListener("abort", stop);
      reject(error);
    });
    both.addEventListener("abort", stop);
    asked.end(body);
  });
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
