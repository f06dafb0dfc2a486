import { CellwrightError, hasCode } from "../../errors.ts";
import { charsOf, type Execution, type ExecutionEvent, type Language, type Variables } from "../../execution.ts";
import type {
  ExecuteOptions,
  Inspection,
  InstalledPackage,
  InstallOptions,
  Kernel,
  KernelInfo,
  Preparation,
  PrepareOptions,
  Variable,
} from "../../kernels/kernel.ts";
import { LOST_NOTICE, type PastCell, type SessionRecord } from "../../store/store.ts";
import type { Mark, Workspace } from "../../workspace/workspace.ts";
import { FinishedRuns } from "../run/finished-runs.ts";
import { type CellLabel, type LateOutput, LateOutputs } from "../run/late-outputs.ts";
import { Run, type RunSource } from "../run/run.ts";
import { type CellRecordParts, failBeforeStart, noteChanges, saveCell, stopBeforeStart } from "./cell-records.ts";
import { SessionKernels, type SessionKernelsParts } from "./kernels.ts";
import { CellQueue, QueueTotal } from "./queue.ts";
import { FRESH_KERNEL_NEXT, STOP_GRACE_MS, type StopReason, stopNotice, stopStatus } from "./stop.ts";
import { Turn } from "./turn.ts";

/** The full text of one cell's output is kept up to this size. */
const SPILL_MAX_BYTES = 64 * 1024 * 1024;

export interface SessionParts extends SessionKernelsParts, CellRecordParts {
  now: () => number;
  /** Memory held by the queued cells of all sessions. */
  queued?: QueueTotal;
  /** Called with the files that changed, after a cell or a tool that writes. */
  filesChanged?: (session: Session, paths: string[]) => void;
}

export interface RunOptions {
  language?: Language;
  env?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  variables?: Variables;
  /** Answers `input()`. */
  onInput?: ExecuteOptions["onInput"];
  /** More options, passed on to the kernel. */
  kernelOptions?: Pick<ExecuteOptions, "script" | "value">;
  /** What to do about imports that cannot be installed; by default the cell is not run. */
  imports?: PrepareOptions["imports"];
  /** Reports the steps of a slow start or an installation. */
  onProgress?: ((message: string) => void) | undefined;
  /** Called with what was installed for the cell, or why that failed. */
  onPrepared?: ((preparation: Preparation | CellwrightError) => void) | undefined;
  /** Wraps the cell's run within its turn. */
  around?: ((kernel: Kernel, run: () => AsyncIterable<ExecutionEvent>) => AsyncIterable<ExecutionEvent>) | undefined;
}

/** One session: turns of cells, time limits, stopping, restarts, history. */
export class Session {
  readonly #parts: SessionParts;
  readonly #queue: CellQueue;
  #turns: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<Run>();
  #current: Turn | undefined;
  #stopping: Promise<void> | undefined;
  readonly #kernels: SessionKernels;
  /** Unfinished runs and the newest ones. Older ones are in the history, so that their images take no memory. */
  #runs: Run[] = [];
  /** Finished runs whose records still get late output. */
  readonly #finished = new FinishedRuns();
  readonly #late = new LateOutputs();
  #closed = false;
  /** The workspace after the last cell. Undefined: something other than a cell has changed it since. */
  #mark: Mark | undefined;

  /** `losses`: notices about lost variables for the next cell of each language. */
  constructor(parts: SessionParts, losses?: Partial<Record<Language, string>>) {
    this.#parts = parts;
    this.#queue = new CellQueue(parts.record.id, parts.queued ?? new QueueTotal());
    const onDeath = (kernel: Kernel, reason: string) => this.#current?.lose(kernel, reason) ?? false;
    this.#kernels = new SessionKernels(parts, { session: this, onDeath, losses });
  }

  get id(): string {
    return this.#parts.record.id;
  }
  get record(): Readonly<SessionRecord> {
    return this.#parts.record;
  }
  get workspace(): Workspace {
    return this.#parts.workspace;
  }
  /** The folder that contains the session's folder, if that is on another machine. */
  get parentFolder(): Workspace | undefined {
    return this.#parts.provider.parentFolder?.(this.id);
  }
  /** The running kernels, Python first. */
  get kernels(): KernelInfo[] {
    return this.#kernels.running;
  }
  get hasKernel(): boolean {
    return this.#kernels.exist;
  }
  get busy(): boolean {
    return this.#current !== undefined || this.#waiting.size > 0;
  }
  get idleMs(): number {
    return this.busy ? 0 : this.#parts.now() - Date.parse(this.#parts.record.lastUsedAt);
  }

  /**
   * Queues a cell and returns at once. Cells run one after another, in call order. Throws `kernel_busy` when the queue
   * is full.
   */
  execute(code: string, options: RunOptions = {}): Run {
    this.#refuseIfClosed();
    const leaveQueue = this.#queue.admit(code, options.variables);
    const run = this.#addRun({ code, language: options.language ?? "python" });
    const cancel = () => void this.#stop(run, "cancelled");
    if (options.signal?.aborted) cancel();
    options.signal?.addEventListener("abort", cancel, { once: true });
    // A time limit of 0 means: do not start.
    if (options.timeoutMs === 0) void this.#stop(run, "timeout");
    this.#turns = this.#turns.then(async () => {
      try {
        await this.#turn(run, (turn) => this.#runCell(turn, options));
      } finally {
        leaveQueue();
        options.signal?.removeEventListener("abort", cancel);
      }
    });
    return run;
  }

  #addRun(source: RunSource): Run {
    const run = new Run(source, (runId) => this.#parts.store.openSpill(this.id, `${runId}.txt`, SPILL_MAX_BYTES));
    this.#runs = [...this.#runs.filter((other) => other.phase !== "finished"), run];
    this.#waiting.add(run);
    return run;
  }

  /**
   * Takes over the orphaned kernel of a previous server process, and the cell that it is running. False: no kernel is
   * alive.
   */
  async adopt(signal: AbortSignal): Promise<boolean> {
    const languages = ["python", "bash"] as const;
    const found = await Promise.all(languages.map((language) => this.#kernels.of(language).adopt(signal)));
    const last = (await this.cells()).at(-1);
    const adopted = last && found[languages.indexOf(last.language)];
    const cell = adopted?.newestCell;
    if (last && cell && last.code === cell.code && last.notices.includes(LOST_NOTICE)) {
      const run = this.#addRun(last);
      run.journaled = true;
      run.notices.push("Cellwright was restarted while this cell ran; the cell was not affected.");
      const resume = async (turn: Turn) => {
        const mark = await this.#parts.workspace.mark();
        await this.#follow(turn, { kernel: adopted.kernel, events: cell.events, mark });
      };
      this.#turns = this.#turns.then(() => this.#turn(run, resume));
    }
    return found.some((kernel) => kernel !== undefined);
  }

  /** The run with this id; by default the running one or else the newest. */
  run(executionId?: string): Run | undefined {
    if (executionId) return this.#runs.find((run) => run.id === executionId);
    return this.#current?.run ?? this.#runs.at(-1);
  }

  /** All cells with their outputs, which may be large. */
  history(): Promise<Execution[]> {
    return this.#parts.store.history(this.id);
  }

  /** All cells without their outputs. */
  cells(): Promise<PastCell[]> {
    return this.#parts.store.cells(this.id);
  }

  /** One past cell with its outputs; by default the newest. */
  async past(executionId?: string): Promise<Execution | undefined> {
    const { store } = this.#parts;
    const id = executionId ?? (await store.cells(this.id)).at(-1)?.id;
    return id === undefined ? undefined : store.execution(this.id, id);
  }

  /** Stops the running cell, not the queued ones. Resolves when it has ended; undefined if none was running. */
  async interrupt(): Promise<Execution | undefined> {
    // A cell that is about to start counts as the running one.
    const run = this.#current?.run ?? this.#waiting.values().next().value;
    if (!run) return undefined;
    await this.#stop(run, "interrupted");
    return run.finished;
  }

  /** Ends the kernel and all its cells. Id, files and history stay; the next cell gets a fresh kernel. */
  async reset(): Promise<void> {
    this.#refuseIfClosed();
    this.#parts.record.cellsBeforeReset = this.#parts.record.cells;
    await this.#endKernel("reset");
  }

  /** Ends the kernel of an idle session; the next cell gets a fresh one and reports it. */
  async sleep(reason: string): Promise<void> {
    if (this.#kernels.running.length > 0) await this.#endKernel("closed", reason);
  }

  async close(reason: "closed" | "shutdown"): Promise<void> {
    this.#closed = true;
    await this.#endKernel(reason);
    await this.#saveLate();
  }

  async inspect(query: Inspection): Promise<Variable[]> {
    const kernel = this.#kernels.of("python").current;
    if (!kernel) return [];
    if (!kernel.inspect) throw new CellwrightError("not_supported", "This kernel cannot show its variables.");
    return kernel.inspect(query);
  }

  /** Makes packages importable in this session, and starts its kernel if needed. Does not wait for a running cell. */
  async install(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]> {
    this.#refuseIfClosed();
    const slot = this.#kernels.of("python");
    const kernel = slot.current ?? (await this.#inTurn(async () => slot.current ?? slot.start(options)));
    if (!kernel.install) throw new CellwrightError("not_supported", "This kernel cannot install packages.");
    return kernel.install(requirements, options);
  }

  /** Starts and rebuilds the kernel unless one runs; the next cell reports the outcome. */
  async wake(): Promise<void> {
    this.#refuseIfClosed();
    await this.#inTurn(() => this.#kernels.wake(new AbortController().signal));
  }

  /** Work between cells. If it fails, the next cell still gets its turn. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turns.then(work);
    this.#turns = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /** Late output that no reply has shown yet. Taking it marks it as shown. */
  takeLate(): LateOutput[] {
    void this.#saveLate();
    return this.#late.take();
  }

  /** Whether late output can still be added to this run: old and large runs are released from memory. */
  holds(run: Run): boolean {
    return run.phase !== "finished" || this.#finished.get(run.id) === run;
  }

  /** Reports that something other than a cell changed these files. */
  filesChanged(paths: string[]): void {
    this.#mark = undefined;
    this.#parts.filesChanged?.(this, paths);
  }

  /** Marks the session as used, which postpones its expiry. */
  touch(): void {
    this.#parts.record.lastUsedAt = new Date(this.#parts.now()).toISOString();
  }

  async #turn(run: Run, work: (turn: Turn) => Promise<void>): Promise<void> {
    this.#waiting.delete(run);
    const turn = new Turn(run, this.#parts.log);
    this.#current = turn;
    let settle = () => run.resolve();
    try {
      await (run.stopReason && !run.journaled ? stopBeforeStart(this.#parts, run) : work(turn));
    } catch (error) {
      if (run.stopReason && run.phase === "starting") await stopBeforeStart(this.#parts, run);
      else settle = () => run.reject(error);
    }
    turn.end();
    // `#stop` of this cell may still be killing the kernel: the next cell must not start in it.
    await this.#stopping;
    this.#current = undefined;
    this.touch();
    settle();
    this.#finished.add(run);
    this.#releaseRuns();
  }

  async #runCell(turn: Turn, options: RunOptions): Promise<void> {
    const { env, variables, onInput, kernelOptions, around } = options;
    const { run } = turn;
    const { store, workspace, guest, defaultTimeoutMs } = this.#parts;
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    run.phase = "starting";
    let kernel = await this.#kernelFor(run, options);
    if (run.language === "python" && env !== undefined && !(await this.#kernels.runIn(env))) {
      run.notices.push(`env=\`${env}\` was ignored: this session already runs in ${kernel.info.description}.`);
    }
    let mark = this.#mark ?? (await workspace.mark());
    await store.begin(this.id, run.snapshot());
    run.journaled = true;
    this.#parts.record.cells += 1;
    for (;;) {
      const obstacle = await this.#prepare(kernel, run, options);
      if (obstacle) return failBeforeStart(this.#parts, run, obstacle);
      if (run.stopReason) return stopBeforeStart(this.#parts, run);
      // The kernel may have died before the cell starts; then start another one.
      if (this.#kernels.of(run.language).current === kernel) break;
      kernel = await this.#kernelFor(run, options);
      mark = await workspace.mark();
    }
    const onLate = this.#lateListener(run.label);
    const executeOptions = { variables, onInput, onLate, timeoutMs, ...kernelOptions, ...guest?.cellOptions };
    const cell = () => kernel.execute(run.code, executeOptions);
    await this.#follow(turn, { kernel, events: around ? around(kernel, cell) : cell(), mark, timeoutMs });
  }

  /** The kernel, started if needed; the run's notices then report lost or restored variables. */
  async #kernelFor(run: Run, { env, onProgress }: RunOptions): Promise<Kernel> {
    const waiting = { ...waitingFor(run, onProgress), language: run.language, executionId: run.id, env };
    const before = this.#kernels.of(run.language).current;
    const { kernel, fate, notices } = await this.#kernels.get(waiting);
    // A session that gets another kernel may be on another server, where its files are others.
    if (kernel !== before) this.#mark = undefined;
    run.fate = { lost: run.fate.lost ?? fate.lost, replayed: run.fate.replayed ?? fate.replayed };
    run.notices.push(...notices);
    return kernel;
  }

  /** Why the cell cannot run: a package that cannot be installed. Undefined: it can run. */
  async #prepare(kernel: Kernel, run: Run, options: RunOptions): Promise<CellwrightError | undefined> {
    const { imports, onProgress, onPrepared } = options;
    const { guest } = this.#parts;
    try {
      const waiting = waitingFor(run, onProgress);
      const done = await kernel.prepare?.(run.code, { ...waiting, imports, ...guest?.cellOptions });
      if (done) onPrepared?.(done);
      return undefined;
    } catch (error) {
      if (run.stopReason) return undefined;
      if (!hasCode(error, "package_error")) throw error;
      onPrepared?.(error);
      return error;
    }
  }

  async #follow(turn: Turn, { kernel, events, mark, timeoutMs = this.#parts.defaultTimeoutMs }: CellInProgress) {
    const { run } = turn;
    const slackMs = kernel.ownTimeLimit?.slackMs ?? 0;
    const timer = setTimeout(() => void this.#stop(run, "timeout"), timeoutMs + slackMs);
    run.phase = "running";
    run.timeoutMs = timeoutMs;
    const ended = await turn.follow(kernel, events);
    run.lost = ended.lost;
    if (ended.lost !== undefined) await this.#kernels.of(run.language).drop(kernel);
    clearTimeout(timer);
    const reason = run.stopReason;
    if (reason) run.notices.push(stopNotice(reason, { lost: ended.lost !== undefined, timeoutMs }));
    else if (ended.lost) run.notices.push(`The kernel died: ${ended.lost} ${FRESH_KERNEL_NEXT}`);
    const closed = run.end(reason ? stopStatus(reason) : ended.status);
    turn.end();
    await closed;
    await this.#callGuest(run, "cellEnded");
    const after = await noteChanges(this.#parts, run, mark);
    if (run.files.length > 0) this.filesChanged(run.files.map(({ path }) => path));
    this.#mark = after;
    await saveCell(this.#parts, run);
    await this.#callGuest(run, "cellSaved");
    // What the guest wrote is not the next cell's.
    if (this.#parts.guest?.cellSaved) this.#mark = undefined;
  }

  /** A failing guest hook does not fail the cell. */
  async #callGuest(run: Run, hook: "cellEnded" | "cellSaved"): Promise<void> {
    const { guest, log } = this.#parts;
    await guest?.[hook]?.(run, this)?.catch((error) => log.warn(`session ${this.id}: ${hook} failed`, error));
  }

  /** The one place where a cell is stopped: interrupt, grace, kill. Resolves when the cell is over. */
  async #stop(run: Run, reason: StopReason): Promise<void> {
    const over = run.phase === "ending" || run.phase === "finished";
    if (!over && !run.stopReason) {
      run.stopReason = reason;
      run.stopping.abort();
      if (run.phase === "running") {
        const stopping = this.#current?.stop(this.#parts.stopGraceMs ?? STOP_GRACE_MS);
        this.#stopping = stopping?.finally(() => {
          this.#stopping = undefined;
        });
      }
    }
    await run.finished.catch(() => {});
  }

  /** Ends all cells and the kernel. Cells queued meanwhile wait until that is done. */
  async #endKernel(reason: StopReason, loss?: string): Promise<void> {
    const runs = [...this.#waiting, ...(this.#current ? [this.#current.run] : [])];
    const stopped = runs.map((run) => this.#stop(run, reason));
    this.#turns = this.#turns.then(() => this.#kernels.end(loss));
    await Promise.all([...stopped, this.#turns]);
  }

  /** A separate method, because kernels keep this closure for long: its scope must not hold the run in memory. */
  #lateListener(label: CellLabel): (event: ExecutionEvent) => void {
    return (event) => this.#addLate(label, event);
  }

  #addLate(label: CellLabel, event: ExecutionEvent): void {
    const ending = this.#current?.run.id === label.executionId ? this.#current.run : undefined;
    if (ending) ending.add(event);
    if (ending || !this.#late.add(label, event)) return;
    this.#finished.get(label.executionId)?.add(event);
    this.#finished.grow(label.executionId, charsOf(event));
    this.#releaseRuns();
  }

  /** Drops finished runs from memory, apart from a few small ones. */
  #releaseRuns(): void {
    const lateIds = this.#late.ids();
    for (const run of this.#finished.release()) {
      if (lateIds.includes(run.id)) void saveCell(this.#parts, run);
    }
    this.#runs = this.#runs.filter((run) => this.holds(run));
  }

  /** Adds late output to the records of the runs that are still in memory. */
  async #saveLate(): Promise<void> {
    const runs = this.#late.ids().flatMap((id) => this.#finished.get(id) ?? []);
    await Promise.all(runs.map((run) => saveCell(this.#parts, run)));
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new CellwrightError("session_closed", `Session \`${this.id}\` is closed.`);
  }
}

function waitingFor(run: Run, onProgress?: (message: string) => void): Required<InstallOptions> {
  return {
    signal: run.stopping.signal,
    progress: (message) => {
      run.startMessage = message;
      onProgress?.(message);
    },
  };
}

interface CellInProgress {
  kernel: Kernel;
  events: AsyncIterable<ExecutionEvent>;
  /** The workspace before the cell. */
  mark: Awaited<ReturnType<Workspace["mark"]>>;
  timeoutMs?: number | undefined;
}
