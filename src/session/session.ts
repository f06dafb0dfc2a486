import { CellwrightError } from "../errors.ts";
import type { Execution, ExecutionEvent, Language, Variables } from "../execution.ts";
import type {
  ExecuteOptions,
  Inspection,
  InstalledPackage,
  InstallOptions,
  Kernel,
  KernelInfo,
  PrepareOptions,
  Variable,
} from "../kernels/kernel.ts";
import { charsOf } from "../output-size.ts";
import { LOST_NOTICE, type PastCell, type SessionRecord } from "../store/store.ts";
import type { Mark, Workspace } from "../workspace/workspace.ts";
import { Bookkeeping, type BookkeepingParts } from "./bookkeeping.ts";
import { FinishedRuns } from "./finished-runs.ts";
import { SessionKernels, type SessionKernelsParts } from "./kernels.ts";
import { type CellLabel, type LateOutput, LateOutputs } from "./late-outputs.ts";
import { CellQueue, QueueTotal } from "./queue.ts";
import { Run, type RunSource } from "./run.ts";
import { afterSetup } from "./setup.ts";
import { FRESH_KERNEL_NEXT, STOP_GRACE_MS, type StopReason, stopNotice, stopStatus } from "./stop.ts";
import { Turn } from "./turn.ts";

/** The full text of one cell's output is kept up to this size. */
const SPILL_MAX_BYTES = 64 * 1024 * 1024;

export interface SessionParts extends SessionKernelsParts, BookkeepingParts {
  now: () => number;
  /** What the waiting cells of all sessions hold. */
  queued?: QueueTotal;
  /** Told which files changed, after a cell and after a tool that writes. */
  filesChanged?: (session: Session, paths: string[]) => void;
}

export interface RunOptions {
  language?: Language;
  env?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  variables?: Variables;
  /** Asks the user on behalf of `input()`. */
  onInput?: ExecuteOptions["onInput"];
  script?: ExecuteOptions["script"];
  value?: ExecuteOptions["value"];
  /** Code of ours to run just before it, in the same turn. If that fails, the cell is not run. */
  setup?: string | undefined;
  /** What becomes of a cell that imports what cannot be had; by default it is not run. */
  imports?: PrepareOptions["imports"];
  /** Told what is being installed for the cell. */
  onInstall?: ((message: string) => void) | undefined;
}

/** One conversation with kernels: cells in turn, time limits, stopping, restarting, history. */
export class Session {
  readonly #parts: SessionParts;
  readonly #queue: CellQueue;
  #turns: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<Run>();
  #current: Turn | undefined;
  #stopping: Promise<void> | undefined;
  readonly #kernels: SessionKernels;
  readonly #books: Bookkeeping;
  /** Those under way and the newest; the others are in the history, where their pictures take no memory. */
  #runs: Run[] = [];
  /** Those to whose records late output is still added. */
  readonly #finished = new FinishedRuns();
  readonly #late = new LateOutputs();
  #closed = false;
  #finishedCells = 0;
  /** What the workspace held after the last cell, where changes between cells are told, too. */
  #mark: Mark | undefined;
  #beganMs: number;

  /** `losses`: what the next cell of a language is told of the variables it misses. */
  constructor(parts: SessionParts, losses?: Partial<Record<Language, string>>) {
    this.#parts = parts;
    this.#beganMs = parts.now();
    this.#queue = new CellQueue(parts.record.id, parts.queued ?? new QueueTotal());
    this.#books = new Bookkeeping(parts);
    this.#kernels = new SessionKernels(parts, (kernel, reason) => this.#current?.lose(kernel, reason) ?? false, losses);
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
  /** The kernels that run now, the one for Python first. */
  get kernels(): KernelInfo[] {
    return this.#kernels.running;
  }
  get hasKernel(): boolean {
    return this.#kernels.exist;
  }
  get busy(): boolean {
    return this.#current !== undefined || this.#waiting.size > 0;
  }
  /** Cells that ended, in whatever way, since it was opened here or reset. */
  get finishedCells(): number {
    return this.#finishedCells;
  }
  /** How long it has been since then. */
  get uptimeMs(): number {
    return this.#parts.now() - this.#beganMs;
  }
  get idleMs(): number {
    return this.busy ? 0 : this.#parts.now() - Date.parse(this.#parts.record.lastUsedAt);
  }

  /**
   * Queues a cell and returns at once. Cells run one after another, in the order of these calls. Throws `kernel_busy` when
   * too many or too large ones wait already.
   */
  execute(code: string, options: RunOptions = {}): Run {
    this.#refuseIfClosed();
    const leaveQueue = this.#queue.admit(code, options.variables);
    const run = this.#addRun({ code, language: options.language ?? "python" });
    const cancel = () => void this.#stop(run, "cancelled");
    if (options.signal?.aborted) cancel();
    options.signal?.addEventListener("abort", cancel, { once: true });
    // No time at all is no time to begin.
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
   * Takes over the kernel that an earlier run of the program left behind, and the cell that was running in it then.
   * False: there is none.
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
      run.notices.push("Cellwright was restarted while this cell ran; the cell was not disturbed.");
      this.#turns = this.#turns.then(() => this.#turn(run, (turn) => this.#resume(turn, adopted.kernel, cell.events)));
    }
    return found.some((kernel) => kernel !== undefined);
  }

  /** The run with this id, or the one running now, or the newest. */
  run(executionId?: string): Run | undefined {
    if (executionId) return this.#runs.find((run) => run.id === executionId);
    return this.#current?.run ?? this.#runs.at(-1);
  }

  /** All that ran so far, with what it showed: that may be very much. */
  history(): Promise<Execution[]> {
    return this.#parts.store.history(this.id);
  }

  /** All that ran so far, without what it showed. */
  cells(): Promise<PastCell[]> {
    return this.#parts.store.cells(this.id);
  }

  /** One of them with what it showed; by default the newest. */
  async past(executionId?: string): Promise<Execution | undefined> {
    const { store } = this.#parts;
    const id = executionId ?? (await store.cells(this.id)).at(-1)?.id;
    return id === undefined ? undefined : store.execution(this.id, id);
  }

  /** Stops the running cell, not those that wait behind it. Resolves when it has ended; undefined if none ran. */
  async interrupt(): Promise<Execution | undefined> {
    // A cell whose turn begins in a moment is the running one for whoever asks.
    const run = this.#current?.run ?? this.#waiting.values().next().value;
    if (!run) return undefined;
    await this.#stop(run, "interrupted");
    return run.finished;
  }

  /** Ends the kernel and all cells of it. Id, files and history stay; the next cell gets a fresh kernel. */
  async reset(): Promise<void> {
    this.#refuseIfClosed();
    this.#parts.record.cellsBeforeReset = this.#parts.record.cells;
    await this.#endKernel("reset");
    this.#finishedCells = 0;
    this.#beganMs = this.#parts.now();
  }

  /** Ends the kernel because nobody used it; the next cell gets a fresh one and is told so. */
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

  /** Makes packages importable in this session, starting its kernel if it has none. Does not wait for a running cell. */
  async install(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]> {
    this.#refuseIfClosed();
    const kernel = this.#kernels.of("python").current ?? (await this.#kernelInTurn(options));
    if (!kernel.install) throw new CellwrightError("not_supported", "This kernel cannot install packages.");
    return kernel.install(requirements, options);
  }

  #kernelInTurn(options: InstallOptions): Promise<Kernel> {
    const held = this.#kernels.of("python");
    const started = this.#turns.then(() => held.current ?? held.start(options));
    this.#turns = started.then(
      () => {},
      () => {},
    );
    return started;
  }

  /** Starts its kernel, if it has none, and rebuilds it; what became of that is told with the next cell. */
  async wake(): Promise<void> {
    this.#refuseIfClosed();
    const woken = this.#turns.then(() => this.#kernels.wake());
    this.#turns = woken.catch(() => {});
    await woken;
  }

  /** Late output that nobody has been shown yet. Asking for it counts as showing it. */
  takeLate(): LateOutput[] {
    void this.#saveLate();
    return this.#late.take();
  }

  /** Whether late output of a cell is added to it: the session lets go of older and larger ones. */
  holds(run: Run): boolean {
    return run.phase !== "finished" || this.#finished.get(run.id) === run;
  }

  /** Says that something else than a cell changed these files. */
  filesChanged(paths: string[]): void {
    this.#parts.filesChanged?.(this, paths);
  }

  /** Notes that the session is in use, which puts off its expiry. */
  touch(): void {
    this.#parts.record.lastUsedAt = new Date(this.#parts.now()).toISOString();
  }

  async #turn(run: Run, work: (turn: Turn) => Promise<void>): Promise<void> {
    this.#waiting.delete(run);
    const turn = new Turn(run, this.#parts.log);
    this.#current = turn;
    let settle = () => run.resolve();
    try {
      await (run.stopReason && !run.journaled ? this.#books.neverRan(run) : work(turn));
    } catch (error) {
      if (run.stopReason && run.phase === "starting") await this.#books.neverRan(run);
      else settle = () => run.reject(error);
    }
    turn.end();
    // Whoever stopped this cell may still be killing its kernel: the next cell must not start in it.
    await this.#stopping;
    this.#current = undefined;
    this.#finishedCells += 1;
    this.touch();
    settle();
    this.#finished.add(run);
    this.#releaseRuns();
  }

  async #runCell(turn: Turn, options: RunOptions): Promise<void> {
    const { env, variables, onInput, timeoutMs, script, value, setup } = options;
    const { run } = turn;
    const { store, workspace } = this.#parts;
    run.phase = "starting";
    let kernel = await this.#kernels.forCell(run, env);
    if (run.language === "python" && env !== undefined && !(await this.#kernels.runIn(env))) {
      run.notices.push(`env=\`${env}\` was ignored: this session already runs in ${kernel.info.description}.`);
    }
    const mark = this.#mark ?? (await workspace.mark());
    await store.begin(this.id, run.snapshot());
    run.journaled = true;
    this.#parts.record.cells += 1;
    // It may die before the cell is run in it; then another one can take its place.
    for (let ready = false; !ready; ready = this.#kernels.of(run.language).current === kernel) {
      kernel = await this.#kernels.forCell(run, env);
      const obstacle = await this.#kernels.prepare(kernel, run, options);
      if (obstacle) return this.#books.couldNotRun(run, obstacle);
      if (run.stopReason) return this.#books.neverRan(run);
    }
    const onLate = this.#lateListener(run.label);
    const timeLimit = timeoutMs ?? this.#parts.defaultTimeoutMs;
    const { classic } = this.#parts;
    const commands = this.#parts.commands ? ("run" as const) : undefined;
    const told = { variables, onInput, onLate, script, value, commands, classic };
    const cell = () => kernel.execute(run.code, { ...told, timeoutMs: timeLimit });
    const events = setup === undefined ? cell() : afterSetup(kernel, { setup, timeoutMs: timeLimit }, cell);
    await this.#follow(turn, { kernel, events, mark, timeoutMs: timeLimit });
  }

  /** The rest of a cell that an earlier run of the program began. */
  async #resume(turn: Turn, kernel: Kernel, events: AsyncIterable<ExecutionEvent>): Promise<void> {
    await this.#follow(turn, { kernel, events, mark: await this.#parts.workspace.mark() });
  }

  async #follow(turn: Turn, { kernel, events, mark, timeoutMs = this.#parts.defaultTimeoutMs }: CellUnderWay) {
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
    await this.#books.saveDisplays(run);
    await this.#books.noteChanges(run, mark);
    if (this.#parts.saveDisplays) this.#mark = await this.#parts.workspace.mark();
    if (run.files.length > 0) this.filesChanged(run.files.map(({ path }) => path));
    await this.#books.save(run);
    await this.#books.record(run);
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

  /** Ends all cells and the kernel. Cells that are asked for meanwhile wait until that is done. */
  async #endKernel(reason: StopReason, loss?: string): Promise<void> {
    const runs = [...this.#waiting, ...(this.#current ? [this.#current.run] : [])];
    const stopped = runs.map((run) => this.#stop(run, reason));
    this.#turns = this.#turns.then(() => this.#kernels.end(loss));
    await Promise.all([...stopped, this.#turns]);
  }

  /** Made apart from all else: a function that a kernel keeps for long keeps alive what is around it, too. */
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

  /** Cells that are over are held only as long as they are few and small. */
  #releaseRuns(): void {
    const lateIds = this.#late.ids();
    for (const run of this.#finished.release()) {
      if (lateIds.includes(run.id)) void this.#books.save(run);
    }
    this.#runs = this.#runs.filter((run) => this.holds(run));
  }

  /** What came late is written to the records of the cells that are still held. */
  async #saveLate(): Promise<void> {
    const runs = this.#late.ids().flatMap((id) => this.#finished.get(id) ?? []);
    await Promise.all(runs.map((run) => this.#books.save(run)));
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new CellwrightError("session_closed", `Session \`${this.id}\` is closed.`);
  }
}

interface CellUnderWay {
  kernel: Kernel;
  events: AsyncIterable<ExecutionEvent>;
  /** What the workspace held before. */
  mark: Awaited<ReturnType<Workspace["mark"]>>;
  timeoutMs?: number | undefined;
}
