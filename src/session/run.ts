import { randomBytes } from "node:crypto";
import type { CellwrightError } from "../errors.ts";
import type { Execution, ExecutionEvent, ExecutionStatus, FileChange, Language, SandboxAnswer } from "../execution.ts";
import type { Preparation } from "../kernels/kernel.ts";
import type { Spill } from "../store/store.ts";
import type { SavedDisplay } from "./display-files.ts";
import { EventQueue } from "./event-queue.ts";
import type { CellLabel } from "./late-outputs.ts";
import { defaultOutputLimits, type OutputLimits, Outputs } from "./outputs.ts";
import type { StopReason } from "./stop.ts";

/** `ending`: its kernel is done with it, its result is being written. */
export type RunPhase = "queued" | "starting" | "running" | "ending" | "finished";

/** A new cell, or one that began in an earlier run of the program. */
export type RunSource = Pick<Execution, "code" | "language"> & Partial<Pick<Execution, "id" | "startedAt">>;

/** One cell on its way: waiting for its turn, for its kernel, running, over. The session drives it, callers look. */
export class Run {
  readonly id: string;
  /** For those who outlive the cell and must not hold on to what it showed. */
  readonly label: CellLabel;
  readonly code: string;
  readonly language: Language;
  /** Settles when the cell is over and written to the store. Rejects only when it could not be run at all. */
  readonly finished: Promise<Execution>;
  /** Aborted when the cell is stopped, for what waits on its behalf: a turn, a kernel's start. */
  readonly stopping = new AbortController();
  phase: RunPhase = "queued";
  stopReason: StopReason | undefined;
  /** Its kernel is gone, and why: it died, or did not stop when it was told to. */
  lost: string | undefined;
  /** How long it may run; known when it does. */
  timeoutMs: number | undefined;
  /** What was installed for it. */
  preparation: Preparation | undefined;
  /** It was stopped before any of it was run. */
  neverRan = false;
  /** Why it was not run: it needs what cannot be had. */
  obstacle: CellwrightError | undefined;
  /** It ran in a kernel that took the place of one that was lost. */
  hasFreshKernel = false;
  /** Where the variables are that it does not find any more, where there are several places. */
  movedFrom: string | undefined;
  /** What the sandbox said that it was sent to. */
  answer: SandboxAnswer | undefined;
  /** What was run again before it, to rebuild its kernel. */
  restored: { cells: number; failures: { cell: number; error: string }[] } | undefined;
  /** The store knows that it was about to run. */
  journaled = false;
  status: ExecutionStatus = "running";
  files: FileChange[] = [];
  savedDisplays: SavedDisplay[] = [];
  readonly notices: string[] = [];
  /** What a slow start is doing now, for progress. */
  startMessage = "";

  readonly #startedAt: Date;
  readonly #startedMs: number;
  #endedMs: number | undefined;
  readonly #limits: OutputLimits;
  readonly #all: Outputs;
  #unseen: Outputs;
  #noticesSeen = 0;
  readonly #queues = new Set<EventQueue>();
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
    this.#unseen = new Outputs(limits);
    this.finished = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // A caller that stopped waiting does not see the rejection; it is not a crash of the program.
    this.finished.catch(() => {});
  }

  add(event: ExecutionEvent): void {
    this.#all.add(event);
    this.#unseen.add(event);
    if (event.type === "done") {
      this.label.executionCount = event.executionCount;
      this.answer = event.answer;
    } else for (const queue of this.#queues) queue.push(event);
  }

  /** The whole of it, as it is now. */
  snapshot(): Execution {
    return this.#execution(this.#all, this.notices);
  }

  /** What is new since the last look. */
  look(): Execution {
    const execution = this.#execution(this.#unseen, this.notices.slice(this.#noticesSeen));
    this.#unseen = new Outputs(this.#limits);
    this.#noticesSeen = this.notices.length;
    return execution;
  }

  /** Events from now on, ending with the cell. A reader that is too slow misses text, marked as such. */
  events(): AsyncIterable<ExecutionEvent> {
    const queue = new EventQueue(() => this.#queues.delete(queue));
    if (this.phase === "finished") queue.end();
    else this.#queues.add(queue);
    return queue;
  }

  get elapsedMs(): number {
    return Math.round((this.#endedMs ?? performance.now()) - this.#startedMs);
  }

  get executionCount(): number | null {
    return this.label.executionCount;
  }

  /** What it holds of its outputs in memory, near enough. */
  get chars(): number {
    return this.#all.chars;
  }

  get lastLine(): string {
    return this.#all.lastLine;
  }

  /** Stops the clock and closes the spill; the cell is over for its kernel, but not yet for its callers. */
  async end(status: ExecutionStatus): Promise<void> {
    this.phase = "ending";
    this.status = status;
    this.#endedMs = performance.now();
    if (this.#all.droppedDisplays > 0) {
      this.notices.push(
        `${this.#all.droppedDisplays} more displays were left out: a cell may show ${this.#limits.displays}.`,
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
    const { status, executionCount } = this;
    for (const queue of this.#queues) {
      queue.push({ type: "done", status: status === "ok" ? "ok" : "error", executionCount });
      queue.end();
    }
    settle();
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
