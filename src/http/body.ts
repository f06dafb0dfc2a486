import type { IncomingMessage, ServerResponse } from "node:http";

/** Limit of unanswered bodies as a multiple of the largest allowed one, in total and per caller. */
const TOTAL_FACTOR = 4;
const OWNER_FACTOR = 3;
/** Bodies up to this size are always read: large requests must not block small ones. */
const SMALL_BYTES = 64 * 1024;

/** A request that is refused with an HTTP status. */
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
 * Reads whole bodies, each up to `maxBytes`, and bounds their total size. A body counts until its request is answered,
 * because a waiting call keeps its arguments in memory.
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
    const tooLarge = new HttpError(413, `The request is larger than ${maxBytes / 1024 / 1024} MB.`);
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
        if (isFull && bytes > SMALL_BYTES) throw new HttpError(503, "Too many large requests at once. Retry later.");
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
