import { randomUUID } from "node:crypto";
import { CellwrightError } from "../../../errors.ts";
import type { Json } from "../../../execution.ts";
import type { Log } from "../../../log.ts";
import { unlessAborted } from "../../starting.ts";
import { connectNew } from "../server/connect.ts";
import { valueIn } from "../server/refusal.ts";
import type { JupyterServer } from "../server/server.ts";
import { HelperKernel, HelperLost, type Question } from "./helper-kernel.ts";
import { ANSWER, helperSource } from "./helper-source.ts";

export interface CallOptions {
  /** Sent with the arguments as `data`. At most `CHUNK_BYTES`. */
  bytes?: Uint8Array;
  signal?: AbortSignal;
}

/** Calls a server's helper. Throws `HelperRefusal`, or another CellwrightError if the helper is unreachable. */
export type Call = <T>(operation: string, args: Record<string, Json>, options?: CallOptions) => Promise<T>;

export interface HelperSettings {
  /** `onStart` is called for each started kernel, `onEnd` for each deleted one. */
  onStart?: (kernelId: string) => void;
  onEnd?: (kernelId: string) => void;
  silenceMs?: number;
  startTimeoutMs?: number;
}

/** Payload of one message: small enough for a slow connection, and far below the server limit of 10 MiB. */
export const CHUNK_BYTES = 1_048_576;

const SILENCE_MS = 60_000;
const START_TIMEOUT_MS = 60_000;
const DELETE_TIMEOUT_MS = 5_000;
/** A call that was in flight when the helper died is retried with the next one. */
const ATTEMPTS = 2;

/**
 * One kernel per server in which no session runs code: it accesses files while cells run. Started on first use, and
 * replaced when it dies.
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

  /** An operation may be done twice if a helper dies; `python/remote-helper/` ensures that this is harmless. */
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
      // After the start, because `onStart` may call the helper.
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
    // The server has replaced it by a new kernel, which is useless.
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

/** Encoded twice: a JSON string is also a Python string literal. */
function questionOf(request: Json): Question {
  return { code: "", expression: `${ANSWER}(${JSON.stringify(JSON.stringify(request))})` };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}
