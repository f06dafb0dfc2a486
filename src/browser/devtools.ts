import type { Readable, Writable } from "node:stream";

/** Limit of one message. A picture has a few megabytes; a larger message means that the browser is compromised. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

interface Waiting {
  sessionId: string | undefined;
  resolve(result: never): void;
  reject(error: Error): void;
}

interface Message {
  id?: number;
  result?: unknown;
  error?: { message?: string };
  method?: string;
  params?: { sessionId?: string };
  sessionId?: string;
}

/** The DevTools protocol over two pipes: JSON, each message ended by a zero byte. */
export class DevTools {
  readonly #output: Writable;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #closed: Error | undefined;

  /** `onBroken` is called when the browser sends invalid messages. */
  constructor(streams: { output: Writable; input: Readable }, onBroken: (reason: string) => void) {
    this.#output = streams.output;
    // The pipes break when the browser is killed; its exit is handled elsewhere.
    streams.output.on("error", () => {});
    streams.input.on("error", () => {});
    streams.input.on("data", (chunk: Buffer) => {
      try {
        this.#read(chunk);
      } catch (error) {
        onBroken(error instanceof Error ? error.message : String(error));
      }
    });
  }

  /** Rejects if the page or the browser ends before it has answered. */
  call<Result = unknown>(method: string, params: object = {}, sessionId?: string): Promise<Result> {
    if (this.#closed) return Promise.reject(this.#closed);
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.set(id, { sessionId, resolve, reject });
      this.#output.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Rejects all pending calls. */
  close(reason: string): void {
    this.#closed ??= new Error(reason);
    this.#rejectAll(this.#closed, () => true);
  }

  #read(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(0); end >= 0; end = chunk.indexOf(0, start)) {
      this.#chunks.push(chunk.subarray(start, end));
      const text = Buffer.concat(this.#chunks).toString("utf8");
      this.#chunks = [];
      this.#bytes = 0;
      start = end + 1;
      this.#take(JSON.parse(text));
    }
    this.#chunks.push(chunk.subarray(start));
    this.#bytes += chunk.length - start;
    if (this.#bytes > MAX_MESSAGE_BYTES) throw new Error("it sent a message over the size limit");
  }

  #take({ id, result, error, method, params, sessionId }: Message): void {
    if (id !== undefined) {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(new Error(error.message ?? "the browser returned an error"));
      else waiting?.resolve(result as never);
    } else if (method === "Inspector.targetCrashed") {
      this.#rejectAll(new Error("the page crashed"), (waiting) => waiting.sessionId === sessionId);
    } else if (method === "Target.detachedFromTarget") {
      const gone = params?.sessionId;
      this.#rejectAll(new Error("the page is gone"), (waiting) => waiting.sessionId === gone);
    } else if (method === "Page.javascriptDialogOpening") {
      // A dialog would wait for a person.
      this.call("Page.handleJavaScriptDialog", { accept: false }, sessionId).catch(() => {});
    }
  }

  #rejectAll(error: Error, concerns: (waiting: Waiting) => boolean): void {
    for (const [id, waiting] of this.#waiting) {
      if (!concerns(waiting)) continue;
      this.#waiting.delete(id);
      waiting.reject(error);
    }
  }
}
