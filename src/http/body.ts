import type { IncomingMessage, ServerResponse } from "node:http";

/** Bodies being read at the same time may together be so many times the largest one. */
const TOTAL_FACTOR = 4;

/** A request that is answered without being understood. */
export class HttpError extends Error {
  override name = "HttpError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Reads whole bodies, each up to `maxBytes`, and all at once within bounds too. */
export function createBodyReader(maxBytes: number) {
  let held = 0;

  return async (request: IncomingMessage, response: ServerResponse): Promise<Buffer> => {
    const tooLarge = new HttpError(413, `The request is larger than --max-request-mb (${maxBytes / 1024 / 1024} MB).`);
    if (Number(request.headers["content-length"]) > maxBytes) throw tooLarge;
    if (request.headers.expect !== undefined) response.writeContinue();
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of request) {
        bytes += chunk.length;
        held += chunk.length;
        if (bytes > maxBytes) throw tooLarge;
        if (held > maxBytes * TOTAL_FACTOR) throw new HttpError(503, "Too many large requests at once. Try again.");
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    } finally {
      held -= bytes;
    }
  };
}
