import type { IncomingMessage, ServerResponse } from "node:http";

/** Bodies whose requests are not answered yet may together be so many times the largest one: all, and one caller's. */
const TOTAL_FACTOR = 4;
const OWNER_FACTOR = 3;
/** Bodies of this size are always read: what others send must not keep anybody from asking something. */
const SMALL_BYTES = 64 * 1024;

/** A request that is answered without being understood. */
export class HttpError extends Error {
  override name = "HttpError";
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

/**
 * Reads whole bodies, each up to `maxBytes`, and all at once within bounds too. What was read counts until its request is
 * answered: a call that waits holds on to its arguments.
 */
export function createBodyReader(maxBytes: number) {
  let held = 0;
  const heldBy = new Map<string, number>();
  const hold = (owner: string, bytes: number) => {
    held += bytes;
    const own = (heldBy.get(owner) ?? 0) + bytes;
    if (own > 0) heldBy.set(owner, own);
    else heldBy.delete(owner);
  };

  return async (request: IncomingMessage, response: ServerResponse, { owner }: { owner: string }): Promise<Buffer> => {
    const tooLarge = new HttpError(413, `The request is larger than --max-request-mb (${maxBytes / 1024 / 1024} MB).`);
    if (Number(request.headers["content-length"]) > maxBytes) throw tooLarge;
    if (request.headers.expect !== undefined) response.writeContinue();
    const chunks: Buffer[] = [];
    let bytes = 0;
    const release = () => {
      hold(owner, -bytes);
      bytes = 0;
    };
    response.once("close", release);
    try {
      for await (const chunk of request) {
        bytes += chunk.length;
        hold(owner, chunk.length);
        if (bytes > maxBytes) throw tooLarge;
        const isFull = held > maxBytes * TOTAL_FACTOR || (heldBy.get(owner) ?? 0) > maxBytes * OWNER_FACTOR;
        if (isFull && bytes > SMALL_BYTES) throw new HttpError(503, "Too many large requests at once. Try again.");
        chunks.push(chunk);
      }
      if (response.destroyed) release();
      return Buffer.concat(chunks);
    } catch (error) {
      release();
      throw error;
    }
  };
}
