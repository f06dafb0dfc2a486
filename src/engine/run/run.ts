import { randomBytes } from "node:crypto";
import type { Execution, ExecutionEvent, ExecutionStatus, FileChange, Language } from "../../execution.ts";
import type { Spill } from "../../store/store.ts";
import type { StopReason } from "../session/stop.ts";
import { type EventListener, eventStream } from "./event-stream.ts";
import type { KernelFate } from "./kernel-fate.ts";
import type { CellLabel } from "./late-outputs.ts";
import { defaultOutputLimits, type OutputLimits, Outputs } from "./outputs.ts";

/** `ending`: the kernel is done, the result is being saved. */
export type RunPhase = "queued" | "starting" | "running" | "ending" | "finished";

/** A new cell, or one that a previous server process started. */
export type RunSource = Pick<Execution, "code" | "language"> & Partial<Pick<Execution, "id" | "startedAt">>;

/** One cell under way: queued, starting, running, finished. The session drives it; callers read it. */
export class Run {
  readonly id: string;
  /** For holders that outlive the cell and must not keep its outputs in memory. */
  readonly label: CellLabel;
  readonly code: string;
  readonly language: Language;
  /** Resolves when the cell has ended and is saved. Rejects only if it could not run at all. */
  readonly finished: Promise<Execution>;
  /** Aborted when the cell is stopped, to cancel waiting for a turn or a kernel start. */
  readonly stopping = new AbortController();
  phase: RunPhase = "queued";
  stopReason: StopReason | undefined;
  /** Why its kernel is gone: it died, or was killed after ignoring an interrupt. */
  lost: string | undefined;
  /** What happened to the previous kernel. */
  fate: KernelFate = {};
  /** Its time limit; set when it starts to run. */
  timeoutMs: number | undefined;
  /** It was stopped before it started. */
  neverRan = false;
  /** The backend's raw answer, for callers that know that backend. */
  raw: unknown;
  /** Its `begin` record is in the journal. */
  journaled = false;
  status: ExecutionStatus = "running";
  files: FileChange[] = [];
  readonly notices: string[] = [];
  /** Current step of a slow start, for progress messages. */
  startMessage = "";

  readonly #startedAt: Date;
  readonly #startedMs: number;
  #endedMs: number | undefined;
  readonly #limits: OutputLimits;
  readonly #all: Outputs;
  /** Output since the last `look`. Before the first one it equals `#all`, so it is not folded twice. */
  #unseen: Outputs | undefined;
  #noticesSeen = 0;
  readonly #listeners = new Set<EventListener>();
  #settle!: { resolve: (execution: Execution) => void; reject: (error: unknown) => void };

  constructor(
    { code, language, id, startedAt }: RunSource,
    openSpill: (runId: string) => Spill,
    limits = defaultOutputLimits,
  ) {
    this.id = id ?? randomBytes(9).toString("base64url");
    this.label = { executionId: this.id, executionCount: null };
    this.#startedAt = startedAt === undefined ? new Date() : new Date(startedAt);
    this.#startedMs = performance.now() - (Date.now() - this.#startedAt.getTime());
    this.code = code;
    this.language = language;
    this.#limits = limits;
    this.#all = new Outputs(limits, () => openSpill(this.id));
    this.finished = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // A caller that stopped waiting does not handle the rejection; that must not crash the process.
    this.finished.catch(() => {});
  }

  add(event: ExecutionEvent): void {
    this.#all.add(event);
    this.#unseen?.add(event);
    if (event.type === "done") {
      this.label.executionCount = event.executionCount;
      this.raw = event.raw;
    } else this.#emit(event);
  }

  /** Everything so far. */
  snapshot(): Execution {
    return this.#execution(this.#all, this.notices);
  }

  /** Only what is new since the last call. */
  look(): Execution {
    const execution = this.#execution(this.#unseen ?? this.#all, this.notices.slice(this.#noticesSeen));
    this.#unseen = new Outputs(this.#limits);
    this.#noticesSeen = this.notices.length;
    return execution;
  }

  /** Calls back with each event from now on; the last one is `done`. Returns the unsubscribe function. */
  listen(listener: EventListener): () => void {
    if (this.phase !== "finished") this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The same as an iterable with a bounded buffer. A reader that is too slow misses output, which is marked. */
  events(): AsyncIterable<ExecutionEvent> {
    return eventStream(this);
  }

  get elapsedMs(): number {
    return Math.round((this.#endedMs ?? performance.now()) - this.#startedMs);
  }

  get executionCount(): number | null {
    return this.label.executionCount;
  }

  /** Approximate memory use of its outputs. */
  get chars(): number {
    return this.#all.chars;
  }

  get lastLine(): string {
    return this.#all.lastLine;
  }

  /** Stops the clock and closes the spill. The kernel is done with the cell; its callers still wait for the record. */
  async end(status: ExecutionStatus): Promise<void> {
    this.phase = "ending";
    this.status = status;
    this.#endedMs = performance.now();
    if (this.#all.droppedDisplays > 0) {
      this.notices.push(
        `${this.#all.droppedDisplays} more displays were dropped: the limit of a cell is ${this.#limits.displays}.`,
      );
    }
    await this.#all.close();
  }

  resolve(): void {
    this.#finish(() => this.#settle.resolve(this.snapshot()));
  }

  reject(error: unknown): void {
    this.#finish(() => this.#settle.reject(error));
  }

  #finish(settle: () => void): void {
    this.phase = "finished";
    this.#emit({
      type: "done",
      status: this.status === "ok" ? "ok" : "error",
      executionCount: this.executionCount,
    });
    this.#listeners.clear();
    settle();
  }

  #emit(event: ExecutionEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  #execution(outputs: Outputs, notices: string[]): Execution {
    return {
      id: this.id,
      code: this.code,
      language: this.language,
      status: this.status,
      executionCount: this.executionCount,
      outputs: outputs.list(this.#all.spillUri),
      files: [...this.files],
      notices: [...notices],
      startedAt: this.#startedAt.toISOString(),
      durationMs: this.elapsedMs,
    };
  }
}
