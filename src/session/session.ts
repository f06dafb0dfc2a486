import { setTimeout as delay } from "node:timers/promises";
import { CellwrightError } from "../errors.ts";
import type { Execution, ExecutionEvent, Json, Language } from "../execution.ts";
import type {
  ExecuteOptions,
  Inspection,
  InstalledPackage,
  InstallOptions,
  Kernel,
  KernelInfo,
  Variable,
} from "../kernels/kernel.ts";
import type { Log } from "../log.ts";
import { LOST_NOTICE, type SessionRecord } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { HeldKernel, HeldKernelParts } from "./held-kernel.ts";
import { SessionKernels } from "./kernels.ts";
import { type LateOutput, LateOutputs } from "./late-outputs.ts";
import { replay } from "./replay.ts";
import { Run, type RunSource } from "./run.ts";
import { FRESH_KERNEL_NEXT, type StopReason, stopNotice, stopStatus } from "./stop.ts";

/** How long an interrupted cell may take to stop before its kernel is killed. Long enough for a `finally`. */
export const STOP_GRACE_MS = 2_000;

/** The full text of one cell's output is kept up to this size. */
const SPILL_MAX_BYTES = 64 * 1024 * 1024;

export interface SessionParts extends HeldKernelParts {
  workspace: Workspace;
  log: Log;
  now: () => number;
  defaultTimeoutMs: number;
  /** Whether a kernel that was lost is rebuilt from the session's history. */
  restore?: "none" | "replay";
  /** Told which files changed, after a cell and after a tool that writes. */
  filesChanged?: (session: Session, paths: string[]) => void;
  stopGraceMs?: number;
}

export interface RunOptions {
  language?: Language;
  env?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  variables?: Record<string, Json | Uint8Array>;
  /** Asks the user on behalf of `input()`. */
  onInput?: ExecuteOptions["onInput"];
}

/** One conversation with a kernel: cells in turn, time limits, stopping, restarting, history. */
export class Session {
  readonly #parts: SessionParts;
  #turns: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<Run>();
  #current: { run: Run; kernel?: Kernel; gone: Signal<string>; over: Signal<void> } | undefined;
  #stopping: Promise<void> | undefined;
  readonly #kernels: SessionKernels;
  /** Those under way and the newest; the others are in the history, where their pictures take no memory. */
  #runs: Run[] = [];
  readonly #late = new LateOutputs();
  #closed = false;

  /** `losses`: what the next cell of a language is told of the variables it misses. */
  constructor(parts: SessionParts, losses?: Partial<Record<Language, string>>) {
    this.#parts = parts;
    this.#kernels = new SessionKernels(parts, (kernel, reason) => this.#noticeDeath(kernel, reason), losses);
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
  get idleMs(): number {
    return this.busy ? 0 : this.#parts.now() - Date.parse(this.#parts.record.lastUsedAt);
  }

  /** Queues a cell and returns at once. Cells run one after another, in the order of these calls. */
  execute(code: string, options: RunOptions = {}): Run {
    this.#refuseIfClosed();
    const run = this.#queue({ code, language: options.language ?? "python" });
    const cancel = () => void this.#stop(run, "cancelled");
    if (options.signal?.aborted) cancel();
    options.signal?.addEventListener("abort", cancel, { once: true });
    this.#turns = this.#turns.then(async () => {
      try {
        await this.#turn(run, () => this.#runOne(run, options));
      } finally {
        options.signal?.removeEventListener("abort", cancel);
      }
    });
    return run;
  }

  #queue(source: RunSource): Run {
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
    const adopted = await this.#kernels.of("python").adopt(signal);
    if (!adopted) return false;
    const last = (await this.history()).at(-1);
    const cell = adopted.newestCell;
    if (cell && last?.code === cell.code && last.notices.includes(LOST_NOTICE)) {
      const run = this.#queue(last);
      run.journaled = true;
      run.notices.push("Cellwright was restarted while this cell ran; the cell was not disturbed.");
      this.#turns = this.#turns.then(() => this.#turn(run, () => this.#resume(run, adopted.kernel, cell.events)));
    }
    return true;
  }

  /** The run with this id, or the one running now, or the newest. */
  run(executionId?: string): Run | undefined {
    if (executionId) return this.#runs.find((run) => run.id === executionId);
    return this.#current?.run ?? this.#runs.at(-1);
  }

  history(): Promise<Execution[]> {
    return this.#parts.store.history(this.id);
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
  }

  /** Ends the kernel because nobody used it; the next cell gets a fresh one and is told so. */
  async sleep(reason: string): Promise<void> {
    if (this.#kernels.running.length > 0) await this.#endKernel("closed", reason);
  }

  async close(reason: "closed" | "shutdown"): Promise<void> {
    this.#closed = true;
    await this.#endKernel(reason);
    await this.#writeLate();
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

  /** Late output that nobody has been shown yet. Asking for it counts as showing it. */
  takeLate(): LateOutput[] {
    for (const run of this.#late.runs()) void this.#save(run);
    return this.#late.take();
  }

  /** Says that something else than a cell changed these files. */
  filesChanged(paths: string[]): void {
    this.#parts.filesChanged?.(this, paths);
  }

  /** Notes that the session is in use, which puts off its expiry. */
  touch(): void {
    this.#parts.record.lastUsedAt = new Date(this.#parts.now()).toISOString();
  }

  async #turn(run: Run, work: () => Promise<void>): Promise<void> {
    this.#waiting.delete(run);
    const current = { run, gone: signal<string>(), over: signal<void>() };
    this.#current = current;
    let settle = () => run.resolve();
    try {
      await (run.stopReason && !run.journaled ? this.#neverRan(run) : work());
    } catch (error) {
      if (run.stopReason && run.phase === "starting") await this.#neverRan(run);
      else settle = () => run.reject(error);
    }
    current.over.fire();
    // Whoever stopped this cell may still be killing its kernel: the next cell must not start in it.
    await this.#stopping;
    this.#current = undefined;
    this.touch();
    settle();
  }

  async #runOne(run: Run, options: RunOptions): Promise<void> {
    const { store, workspace } = this.#parts;
    run.phase = "starting";
    let kernel = await this.#kernelFor(run, options);
    if (run.language === "python" && options.env !== undefined && !(await this.#runsIn(options.env))) {
      run.notices.push(`env=\`${options.env}\` was ignored: this session already runs in ${kernel.info.description}.`);
    }
    const mark = await workspace.mark();
    await store.begin(this.id, run.snapshot());
    run.journaled = true;
    this.#parts.record.cells += 1;
    // It may die before the cell is run in it; then another one can take its place.
    for (let ready = false; !ready; ready = this.#kernels.of(run.language).current === kernel) {
      kernel = await this.#kernelFor(run, options);
      const obstacle = await this.#prepare(kernel, run);
      if (obstacle) return this.#couldNotRun(run, obstacle);
      if (run.stopReason) return this.#neverRan(run);
    }
    const onLate = (late: ExecutionEvent) => this.#addLate(run, late);
    const { variables, onInput } = options;
    const events = kernel.execute(run.code, { variables, onInput, onLate });
    await this.#follow(run, { kernel, events, mark, timeoutMs: options.timeoutMs });
  }

  /** The rest of a cell that an earlier run of the program began. */
  async #resume(run: Run, kernel: Kernel, events: AsyncIterable<ExecutionEvent>): Promise<void> {
    await this.#follow(run, { kernel, events, mark: await this.#parts.workspace.mark() });
  }

  async #follow(run: Run, { kernel, events, mark, timeoutMs = this.#parts.defaultTimeoutMs }: CellUnderWay) {
    const timer = setTimeout(() => void this.#stop(run, "timeout"), timeoutMs);
    run.phase = "running";
    const ended = await this.#runOn(kernel, run, events);
    clearTimeout(timer);
    const reason = run.stopReason;
    if (reason) run.notices.push(stopNotice(reason, { lost: ended.lost !== undefined, timeoutMs }));
    else if (ended.lost) run.notices.push(`The kernel died: ${ended.lost} ${FRESH_KERNEL_NEXT}`);
    const closed = run.end(reason ? stopStatus(reason) : ended.status);
    this.#current?.over.fire();
    await closed;
    await this.#noteChanges(run, mark);
    await this.#save(run);
  }

  /** Runs the cell until `done`, or until the kernel is gone; then `lost` says why. */
  async #runOn(kernel: Kernel, run: Run, events: AsyncIterable<ExecutionEvent>): Promise<CellEnd> {
    if (!this.#current) throw new Error("a cell runs only in its turn");
    this.#current.kernel = kernel;
    // A kernel that is gone must not hold the turn, whatever becomes of its iterator.
    const gone = this.#current.gone.fired.then((lost): CellEnd => ({ status: "kernel_died", lost }));
    const ended = await Promise.race([this.#consume(run, events), gone]);
    if (ended.lost !== undefined) await this.#kernels.of(run.language).drop(kernel);
    return ended;
  }

  async #consume(run: Run, events: AsyncIterable<ExecutionEvent>): Promise<CellEnd> {
    try {
      for await (const event of events) {
        if (run.phase !== "running") break;
        run.add(event);
        if (event.type === "done") return { status: event.status };
      }
      return { status: "kernel_died", lost: "it stopped in the middle of the cell." };
    } catch (error) {
      if (error instanceof CellwrightError) return { status: "kernel_died", lost: error.message };
      this.#parts.log.error(`session ${this.id}: the kernel broke`, error);
      return { status: "kernel_died", lost: "it broke." };
    }
  }

  /** The kernel, started if there is none; the cell's notices then tell of variables that are gone, or came back. */
  async #kernelFor(run: Run, { env }: RunOptions): Promise<Kernel> {
    const held = this.#kernels.of(run.language);
    if (held.current) return held.current;
    // A session that began in the default environment stays there, too.
    const began = (await this.history()).some((cell) => cell.language === "python" && cell.id !== run.id);
    const waiting = { env: began ? undefined : env, signal: run.stopping.signal, progress: tellStart(run) };
    const kernel = await held.start(waiting);
    const loss = held.takeLoss();
    // What a shell did was done to files, which are still there: doing it again would do it twice.
    if (this.#parts.restore === "replay" && run.language === "python") {
      const rebuilt = await this.#replay(held, kernel, run);
      if (rebuilt) return rebuilt.current ?? held.start(waiting);
    }
    if (loss) run.notices.push(loss);
    return kernel;
  }

  async #runsIn(env: string): Promise<boolean> {
    const { record, provider } = this.#parts;
    return env === record.env || ((await provider.sameEnvironment?.(record.env, env)) ?? false);
  }

  /** Undefined: there is nothing to run again. */
  async #replay(held: HeldKernel, kernel: Kernel, run: Run): Promise<HeldKernel | undefined> {
    const { record, stopGraceMs = STOP_GRACE_MS, defaultTimeoutMs } = this.#parts;
    const since = (await this.history()).slice(record.cellsBeforeReset ?? 0);
    const cells = since.filter((cell) => cell.language === "python" && cell.id !== run.id);
    if (cells.length === 0) return undefined;
    const { notice, unusable } = await replay(kernel, cells, {
      signal: run.stopping.signal,
      timeoutMs: defaultTimeoutMs,
      graceMs: stopGraceMs,
      progress: tellStart(run),
    });
    run.notices.push(notice);
    if (unusable) await held.drop(kernel);
    return held;
  }

  /** The one place where a cell is stopped: interrupt, grace, kill. Resolves when the cell is over. */
  async #stop(run: Run, reason: StopReason): Promise<void> {
    const over = run.phase === "ending" || run.phase === "finished";
    if (!over && !run.stopReason) {
      run.stopReason = reason;
      run.stopping.abort();
      if (run.phase === "running") {
        this.#stopping = this.#stopRunning().finally(() => {
          this.#stopping = undefined;
        });
      }
    }
    await run.finished.catch(() => {});
  }

  async #stopRunning(): Promise<void> {
    const { kernel, run, over, gone } = this.#current ?? {};
    if (!kernel || !run || !over || !gone) return;
    const grace = kernel.interrupt ? (this.#parts.stopGraceMs ?? STOP_GRACE_MS) : 0;
    void kernel.interrupt?.().catch((error) => this.#parts.log.warn(`session ${this.id}: interrupt failed`, error));
    const waiting = new AbortController();
    await Promise.race([over.fired, delay(grace, undefined, { signal: waiting.signal }).catch(() => {})]);
    waiting.abort();
    if (run.phase !== "running") return;
    await kernel.dispose();
    gone.fire("it was killed.");
  }

  /** Ends all cells and the kernel. Cells that are asked for meanwhile wait until that is done. */
  async #endKernel(reason: StopReason, loss?: string): Promise<void> {
    const runs = [...this.#waiting, ...(this.#current ? [this.#current.run] : [])];
    const stopped = runs.map((run) => this.#stop(run, reason));
    this.#turns = this.#turns.then(() => this.#kernels.end(loss));
    await Promise.all([...stopped, this.#turns]);
  }

  /** True if the death is the running cell's, whose reply will tell it. */
  #noticeDeath(kernel: Kernel, reason: string): boolean {
    const current = this.#current?.kernel === kernel ? this.#current : undefined;
    // Events may still be on their way to us.
    if (current) setTimeout(() => current.gone.fire(reason), GONE_DRAIN_MS);
    return current !== undefined;
  }

  /** What the cell lacks and cannot be had; undefined if it can run. */
  async #prepare(kernel: Kernel, run: Run): Promise<CellwrightError | undefined> {
    try {
      await kernel.prepare?.(run.code, { signal: run.stopping.signal, progress: tellStart(run) });
    } catch (error) {
      if (run.stopReason) return undefined;
      if (error instanceof CellwrightError && error.code === "package_error") return error;
      throw error;
    }
    return undefined;
  }

  /** What a cell asks for and cannot have is its own failure, not ours. */
  async #couldNotRun(run: Run, { message, hint }: CellwrightError): Promise<void> {
    run.add({ type: "error", name: "PackageError", message, traceback: [`PackageError: ${message} ${hint}`] });
    run.notices.push("The cell was not run; variables are kept.");
    await run.end("error");
    await this.#save(run);
  }

  async #neverRan(run: Run): Promise<void> {
    run.notices.push("The cell was stopped before it started: nothing was run and nothing is lost.");
    await run.end(stopStatus(run.stopReason ?? "interrupted"));
    if (run.journaled) await this.#save(run);
  }

  async #noteChanges(run: Run, mark: Awaited<ReturnType<Workspace["mark"]>>): Promise<void> {
    try {
      const { changes, complete } = await this.#parts.workspace.changedSince(mark);
      run.files = changes;
      if (changes.length > 0) this.filesChanged(changes.map((change) => change.path));
      if (!complete)
        run.notices.push("The workspace holds more than 10 000 files: the list of changed files is not complete.");
    } catch (error) {
      this.#parts.log.warn(`session ${this.id}: cannot look through the workspace`, error);
      run.notices.push("The workspace could not be looked through for changed files.");
    }
  }

  async #save(run: Run): Promise<void> {
    try {
      await this.#parts.store.finish(this.id, run.snapshot());
    } catch (error) {
      this.#parts.log.error(`session ${this.id}: cannot write its history`, error);
      run.notices.push("The result could not be written to the session's history: the disk may be full.");
    }
  }

  #addLate(run: Run, event: ExecutionEvent): void {
    if (run.phase !== "finished" || this.#late.add(run, event)) run.add(event);
  }

  async #writeLate(): Promise<void> {
    for (const run of this.#late.runs()) await this.#save(run);
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new CellwrightError("session_closed", `Session \`${this.id}\` is closed.`);
  }
}

function tellStart(run: Run): (message: string) => void {
  return (message) => {
    run.startMessage = message;
  };
}

/** A kernel that is gone may still have events on their way to us. */
const GONE_DRAIN_MS = 100;

interface CellUnderWay {
  kernel: Kernel;
  events: AsyncIterable<ExecutionEvent>;
  /** What the workspace held before. */
  mark: Awaited<ReturnType<Workspace["mark"]>>;
  timeoutMs?: number | undefined;
}

interface CellEnd {
  status: "ok" | "error" | "kernel_died";
  /** Set when the kernel is gone: why. */
  lost?: string;
}

/** A promise that somebody else fires. */
interface Signal<T> {
  fired: Promise<T>;
  fire(value: T): void;
}

function signal<T>(): Signal<T> {
  let fire!: (value: T) => void;
  const fired = new Promise<T>((resolve) => {
    fire = resolve;
  });
  return { fired, fire };
}
