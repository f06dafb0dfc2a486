import { CellwrightError } from "../errors.ts";
import type { Language } from "../execution.ts";
import type { InstallOptions, Kernel, KernelInfo } from "../kernels/kernel.ts";
import { HeldKernel, type HeldKernelParts } from "./held-kernel.ts";
import { replay } from "./replay.ts";
import type { Run } from "./run.ts";
import { STOP_GRACE_MS } from "./stop.ts";

export interface SessionKernelsParts extends HeldKernelParts {
  defaultTimeoutMs: number;
  stopGraceMs?: number;
  /** Whether a kernel that was lost is rebuilt from the session's history. */
  restore?: "none" | "replay";
}

/** The kernels of one session: at most one for each language, started when they are wanted. */
export class SessionKernels {
  readonly #parts: SessionKernelsParts;
  readonly #held: Record<Language, HeldKernel>;

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

  /** The kernel, started if there is none; the cell's notices then tell of variables that are gone, or came back. */
  async forCell(run: Run, env: string | undefined): Promise<Kernel> {
    const held = this.of(run.language);
    if (held.current) return held.current;
    // A session that began in the default environment stays there, too.
    const began = (await this.#cells(run)).some(({ language }) => language === "python");
    const waiting = { env: began ? undefined : env, ...waitingFor(run) };
    const kernel = await held.start(waiting);
    const loss = held.takeLoss();
    // What a shell did was done to files, which are still there: doing it again would do it twice.
    const isRebuilt =
      this.#parts.restore === "replay" && run.language === "python" && (await this.#rebuild(kernel, run));
    if (loss && !isRebuilt) run.notices.push(loss);
    return held.current ?? held.start(waiting);
  }

  /** What the cell lacks and cannot be had; undefined if it can run. */
  async prepare(kernel: Kernel, run: Run): Promise<CellwrightError | undefined> {
    try {
      await kernel.prepare?.(run.code, waitingFor(run));
    } catch (error) {
      if (run.stopReason) return undefined;
      if (error instanceof CellwrightError && error.code === "package_error") return error;
      throw error;
    }
    return undefined;
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
    const { record, stopGraceMs = STOP_GRACE_MS, defaultTimeoutMs } = this.#parts;
    const since = (await this.#cells(run)).slice(record.cellsBeforeReset ?? 0);
    const cells = since.filter(({ language }) => language === "python");
    if (cells.length === 0) return false;
    const limits = { timeoutMs: defaultTimeoutMs, graceMs: stopGraceMs };
    const { notice, unusable } = await replay(kernel, cells, { ...limits, ...waitingFor(run) });
    run.notices.push(notice);
    if (unusable) await this.of("python").drop(kernel);
    return true;
  }

  /** Those before this one. */
  async #cells(run: Run) {
    const { store, record } = this.#parts;
    return (await store.history(record.id)).filter(({ id }) => id !== run.id);
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
