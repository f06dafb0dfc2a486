import { CellwrightError } from "../errors.ts";
import type { Language } from "../execution.ts";
import type { InstallOptions, Kernel, KernelInfo, PrepareOptions } from "../kernels/kernel.ts";
import { type Chronicle, succeeded } from "./chronicle.ts";
import { HeldKernel, type HeldKernelParts } from "./held-kernel.ts";
import { type ReplayOptions, replay, replayAll } from "./replay.ts";
import { Run } from "./run.ts";
import { STOP_GRACE_MS } from "./stop.ts";

export interface SessionKernelsParts extends HeldKernelParts {
  defaultTimeoutMs: number;
  stopGraceMs?: number;
  /**
   * Whether a kernel that was lost is rebuilt from the session's history: all cells up to one that ends in another way
   * now, or all that succeeded.
   */
  restore?: "none" | "replay" | "replay-all" | undefined;
  /** Whether lines of Python cells that are shell commands are run by a shell. */
  commands?: boolean | undefined;
  /** Whether cells of Python are run as IPython runs them without us. */
  classic?: boolean | undefined;
  /** The cells that succeeded, as others keep them. */
  chronicle?: Chronicle | undefined;
}

/** The kernels of one session: at most one for each language, started when they are wanted. */
export class SessionKernels {
  readonly #parts: SessionKernelsParts;
  readonly #held: Record<Language, HeldKernel>;
  /** What there is to tell of a kernel that was rebuilt before anybody asked for it. */
  #woken: Run | undefined;

  /** `onDeath` is told when a kernel is gone, and returns true if somebody's reply will say so. */
  constructor(
    parts: SessionKernelsParts,
    onDeath: (kernel: Kernel, reason: string) => boolean,
    losses: Partial<Record<Language, string>> = {},
  ) {
    this.#parts = parts;
    this.#held = {
      python: new HeldKernel("python", parts, onDeath, losses.python),
      bash: new HeldKernel("bash", parts, onDeath, losses.bash),
    };
  }

  of(language: Language): HeldKernel {
    return this.#held[language];
  }

  /** The one for Python first. */
  get running(): KernelInfo[] {
    return this.#all.flatMap((held) => held.current?.info ?? []);
  }

  get exist(): boolean {
    return this.#all.some((held) => held.exists);
  }

  /** The kernel of Python, started and rebuilt if there is none; the next cell is told of it. */
  async wake(): Promise<void> {
    if (this.of("python").current) return;
    const run = new Run({ code: "", language: "python" }, () => {
      throw new Error("Nothing is printed where nothing runs.");
    });
    await this.forCell(run, undefined);
    this.#woken = run;
  }

  /** The kernel, started if there is none; the cell's notices then tell of variables that are gone, or came back. */
  async forCell(run: Run, env: string | undefined): Promise<Kernel> {
    const held = this.of(run.language);
    if (run.language === "python") this.#tellOfWaking(run);
    if (held.current) return held.current;
    // A session that began in the default environment stays there, too.
    const began = (await this.#cells(run)).some(({ language }) => language === "python");
    const waiting = { env: began ? undefined : env, ...waitingFor(run) };
    const kernel = await held.start(waiting);
    run.hasFreshKernel ||= held.takeMissed();
    run.movedFrom ??= held.takeMissedPlace();
    const loss = held.takeLoss();
    // What a shell did was done to files, which are still there: doing it again would do it twice.
    const isRebuilt = run.language === "python" && (await this.#rebuild(kernel, run));
    if (loss && !isRebuilt) run.notices.push(loss);
    return held.current ?? held.start(waiting);
  }

  #tellOfWaking(run: Run): void {
    const woken = this.#woken;
    this.#woken = undefined;
    if (!woken) return;
    run.restored ??= woken.restored;
    run.notices.push(...woken.notices);
  }

  /** What the cell lacks and cannot be had; undefined if it can run. */
  async prepare(
    kernel: Kernel,
    run: Run,
    {
      imports,
      onInstall,
    }: { imports?: PrepareOptions["imports"]; onInstall?: ((message: string) => void) | undefined },
  ): Promise<CellwrightError | undefined> {
    const { signal, progress } = waitingFor(run);
    const tell = (message: string) => {
      progress(message);
      onInstall?.(message);
    };
    try {
      run.preparation = await kernel.prepare?.(run.code, {
        ...{ signal, progress: tell, imports },
        commands: this.#parts.commands,
        classic: this.#parts.classic,
      });
    } catch (error) {
      if (run.stopReason) return undefined;
      if (!(error instanceof CellwrightError) || error.code !== "package_error") throw error;
      run.obstacle = error;
    }
    return run.obstacle;
  }

  /** Whether the session's environment is the one that this names. */
  async runIn(env: string): Promise<boolean> {
    const { record, provider } = this.#parts;
    return env === record.env || ((await provider.sameEnvironment?.(record.env, env)) ?? false);
  }

  async end(loss?: string): Promise<void> {
    await Promise.all(this.#all.map((held) => held.end(loss)));
  }

  /** Runs earlier cells again. False: there are none. A kernel that hangs in one of them is dropped. */
  async #rebuild(kernel: Kernel, run: Run): Promise<boolean> {
    const { record, store, restore = "none", stopGraceMs = STOP_GRACE_MS, defaultTimeoutMs } = this.#parts;
    const { commands = false, classic } = this.#parts;
    if (restore === "none") return false;
    const since = (await this.#cells(run)).slice(record.cellsBeforeReset ?? 0);
    const cells = since.filter(({ language }) => language === "python");
    const options = { timeoutMs: defaultTimeoutMs, graceMs: stopGraceMs, commands, classic, ...waitingFor(run) };
    if (restore === "replay-all") return this.#rebuildAll(kernel, { run, codes: succeeded(cells), options });
    if (cells.length === 0) return false;
    const { notice, unusable } = await replay(kernel, cells, {
      ...options,
      outputsOf: async (id) => (await store.execution(record.id, id))?.outputs ?? [],
    });
    run.notices.push(notice);
    if (unusable) await this.of("python").drop(kernel);
    return true;
  }

  async #rebuildAll(
    kernel: Kernel,
    { run, codes, options }: { run: Run; codes: string[]; options: ReplayOptions },
  ): Promise<boolean> {
    const cells = (await this.#parts.chronicle?.read(codes)) ?? codes;
    if (cells.length === 0) return false;
    const { failures, unusable } = await replayAll(kernel, cells, options);
    run.restored = { cells: cells.length, failures };
    run.notices.push(`The kernel was gone: the session's ${cells.length} cells that succeeded were run again.`);
    for (const { cell, error } of failures) run.notices.push(`Cell ${cell} of them failed now: ${error}`);
    if (unusable) await this.of("python").drop(kernel);
    return true;
  }

  /** Those before this one. */
  async #cells(run: Run) {
    const { store, record } = this.#parts;
    return (await store.cells(record.id)).filter(({ id }) => id !== run.id);
  }

  get #all(): HeldKernel[] {
    return [this.#held.python, this.#held.bash];
  }
}

function waitingFor(run: Run): Required<InstallOptions> {
  return {
    signal: run.stopping.signal,
    progress: (message) => {
      run.startMessage = message;
    },
  };
}
