import { randomUUID } from "node:crypto";
import { CellwrightError } from "../../../errors.ts";
import type { Json } from "../../../execution.ts";
import type { Log } from "../../../log.ts";
import { connectNew } from "./connect.ts";
import { HelperKernel, HelperLost, type Question } from "./helper-kernel.ts";
import { ANSWER, helperSource } from "./helper-source.ts";
import { valueIn } from "./refusal.ts";
import type { JupyterServer } from "./server.ts";

export interface CallOptions {
  /** Goes with the arguments as `data`. Not more than `CHUNK_BYTES`. */
  bytes?: Uint8Array;
  signal?: AbortSignal;
}

/** Asks the helper of a server something. Throws `HelperRefusal`, or another CellwrightError when it cannot be asked. */
export type Call = <T>(operation: string, args: Record<string, Json>, options?: CallOptions) => Promise<T>;

export interface HelperSettings {
  /** Told the id of each kernel that is started, and of each that is gone and was deleted. */
  onStart?: (kernelId: string) => void;
  onEnd?: (kernelId: string) => void;
  silenceMs?: number;
  startTimeoutMs?: number;
}

/** What one message carries: small enough for a slow line, and far below the 10 MiB that a server takes. */
export const CHUNK_BYTES = 1_048_576;

const SILENCE_MS = 60_000;
const START_TIMEOUT_MS = 60_000;
const DELETE_TIMEOUT_MS = 5_000;
/** A call that was under way when the helper died is asked of the next one. */
const ATTEMPTS = 2;

/**
 * One kernel of ours on a server that no session runs code in: it works on files while cells run. Started when first
 * used, and another when it died.
 */
export class ServerHelper {
  readonly #server: JupyterServer;
  readonly #log: Log;
  readonly #settings: HelperSettings;
  readonly #ending = new AbortController();
  readonly #deletions = new Set<Promise<void>>();
  #kernel: Promise<{ id: string; kernel: HelperKernel }> | undefined;

  constructor(server: JupyterServer, log: Log, settings: HelperSettings = {}) {
    this.#server = server;
    this.#log = log;
    this.#settings = settings;
  }

  /** The same operation may be done twice when a helper dies; `host/helper*.py` make sure that this does no harm. */
  readonly call: Call = async <T>(operation: string, args: Record<string, Json>, options: CallOptions = {}) => {
    const { bytes, signal } = options;
    const data = bytes && { data: base64(bytes) };
    const question = (again: boolean) => questionOf({ operation, again, arguments: { ...args, ...data } });
    const about = { operation, server: this.#server.name };
    let reason = "";
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      signal?.throwIfAborted();
      const kernel = await unlessAborted(this.#started(), signal);
      try {
        const asking = kernel.ask(question(attempt > 1), question(true));
        return valueIn(await unlessAborted(asking, signal), about) as T;
      } catch (error) {
        if (!(error instanceof HelperLost)) throw error;
        reason = error.message;
      }
    }
    const message = `The Jupyter server at ${about.server} could not do \`${operation}\`: ${reason}`;
    throw new CellwrightError("server_unreachable", message);
  };

  async dispose(): Promise<void> {
    this.#ending.abort();
    const started = await this.#kernel?.catch(() => undefined);
    started?.kernel.lose("Cellwright is shutting down.");
    if (started) void this.#delete(started.id);
    await Promise.all(this.#deletions);
  }

  async #started(): Promise<HelperKernel> {
    if (this.#ending.signal.aborted) {
      throw new CellwrightError("server_unreachable", `The connection to ${this.#server.name} has been closed.`);
    }
    if (!this.#kernel) {
      this.#kernel = this.#start();
      // Afterwards: it may want to ask something.
      void this.#kernel.then(({ id }) => this.#settings.onStart?.(id)).catch(() => {});
    }
    return (await this.#kernel).kernel;
  }

  async #start(): Promise<{ id: string; kernel: HelperKernel }> {
    const { startTimeoutMs = START_TIMEOUT_MS, silenceMs = SILENCE_MS } = this.#settings;
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(startTimeoutMs)]);
    let id: string | undefined;
    try {
      id = await this.#server.createKernel(signal);
      const channel = await connectNew(this.#server, id, { wsSession: randomUUID(), signal });
      const kernel = new HelperKernel(channel, { silenceMs });
      await unlessAborted(kernel.ask({ code: helperSource() }), signal);
      const started = { id, kernel };
      void kernel.lost.then((reason) => this.#replace(started, reason));
      return started;
    } catch (error) {
      this.#kernel = undefined;
      if (id !== undefined) await this.#delete(id);
      throw error instanceof CellwrightError ? error : this.#notStarted(error, signal);
    }
  }

  #notStarted(error: unknown, signal: AbortSignal): CellwrightError {
    const why = signal.aborted ? "it took too long" : error instanceof Error ? error.message : String(error);
    const message = `The Jupyter server at ${this.#server.name} has no helper for its files: ${why}.`;
    return new CellwrightError("server_unreachable", message, { cause: error });
  }

  async #replace({ id }: { id: string }, reason: string): Promise<void> {
    this.#kernel = undefined;
    if (this.#ending.signal.aborted) return;
    this.#log.info(`the helper kernel at ${this.#server.name} is gone (${reason}); another is started when needed`);
    // Its server has put a fresh kernel in its place, which nobody wants.
    await this.#delete(id);
  }

  #delete(id: string): Promise<void> {
    const deletion = this.#deleteNow(id).finally(() => this.#deletions.delete(deletion));
    this.#deletions.add(deletion);
    return deletion;
  }

  async #deleteNow(id: string): Promise<void> {
    try {
      await this.#server.deleteKernel(id, AbortSignal.timeout(DELETE_TIMEOUT_MS));
      this.#settings.onEnd?.(id);
    } catch (error) {
      this.#log.debug(`the helper kernel ${id} at ${this.#server.name} was not deleted: ${error}`);
    }
  }
}

/** JSON twice: what comes out is a Python string, too. */
function questionOf(request: Json): Question {
  return { code: "", expression: `${ANSWER}(${JSON.stringify(JSON.stringify(request))})` };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** Only the waiting ends: what was asked goes on. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
    work.catch(() => {});
  }
}
