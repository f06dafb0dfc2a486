import type { Language } from "../../execution.ts";
import type { InstallOptions, Kernel, KernelInfo } from "../../kernels/kernel.ts";
import type { PastCell } from "../../store/store.ts";
import type { Guest, GuestSession } from "../guest.ts";
import type { KernelFate } from "../run/kernel-fate.ts";
import { KernelSlot, type KernelSlotParts } from "./kernel-slot.ts";
import { type Replayed, replay, replayAll } from "./replay.ts";
import { STOP_GRACE_MS } from "./stop.ts";

export interface SessionKernelsParts extends KernelSlotParts {
  defaultTimeoutMs: number;
  stopGraceMs?: number;
  /** How a lost kernel is rebuilt: see --restore. */
  restore?: "none" | "replay" | "replay-all" | undefined;
  guest?: Guest | undefined;
}

export interface KernelsContext {
  session: GuestSession;
  /** Called when a kernel is gone; true if a reply will report it. */
  onDeath: (kernel: Kernel, reason: string) => boolean;
  /** Notices about lost variables, for the next cell of each language. */
  losses?: Partial<Record<Language, string>> | undefined;
}

/** A kernel that is ready for a cell, and what the cell's reply must report about it. */
export interface ReadyKernel {
  kernel: Kernel;
  fate: KernelFate;
  notices: string[];
}

/** What is needed for one start, and how to wait for it. */
export interface KernelRequest extends InstallOptions {
  language: Language;
  env?: string | undefined;
  /** The waiting cell, which is in the history already. */
  executionId?: string;
}

/** The kernels of one session: at most one per language, started on demand. */
export class SessionKernels {
  readonly #parts: SessionKernelsParts;
  readonly #session: GuestSession;
  readonly #held: Record<Language, KernelSlot>;
  /** What a kernel that was rebuilt by `wake` has to report; the next cell does so. */
  #woken: Omit<ReadyKernel, "kernel"> | undefined;

  constructor(parts: SessionKernelsParts, { session, onDeath, losses }: KernelsContext) {
    this.#parts = parts;
    this.#session = session;
    this.#held = {
      python: new KernelSlot("python", parts, onDeath, losses?.python),
      bash: new KernelSlot("bash", parts, onDeath, losses?.bash),
    };
  }

  of(language: Language): KernelSlot {
    return this.#held[language];
  }

  /** Python first. */
  get running(): KernelInfo[] {
    return this.#all.flatMap((held) => held.current?.info ?? []);
  }

  get exist(): boolean {
    return this.#all.some((held) => held.exists);
  }

  /** Starts and rebuilds the Python kernel unless one runs; the next cell reports it. */
  async wake(signal: AbortSignal): Promise<void> {
    if (!this.of("python").current) this.#woken = await this.get({ language: "python", signal });
  }

  /** The kernel; starts one if needed. */
  async get(request: KernelRequest): Promise<ReadyKernel> {
    const { language, env, executionId, ...waiting } = request;
    const held = this.of(language);
    await held.current?.settled?.(waiting.signal);
    const woken = language === "python" ? this.#woken : undefined;
    if (woken) this.#woken = undefined;
    if (held.current) return { kernel: held.current, fate: woken?.fate ?? {}, notices: woken?.notices ?? [] };
    const earlier = await this.#cellsBefore(executionId);
    // A session that started in the default environment also keeps it.
    const began = earlier.some((cell) => cell.language === "python");
    const start = { env: began ? undefined : env, ...waiting };
    const kernel = await held.start(start);
    const lost = held.takeLost();
    // Shell cells changed files, which are still there: replaying them would apply the changes twice.
    const rebuilt = language === "python" ? await this.#rebuild(kernel, earlier, waiting) : undefined;
    const notices = rebuilt?.notices ?? (lost?.notice === undefined ? [] : [lost.notice]);
    return { kernel: held.current ?? (await held.start(start)), fate: { lost, replayed: rebuilt?.replayed }, notices };
  }

  /** Whether `env` names the session's environment. */
  async runIn(env: string): Promise<boolean> {
    const { record, provider } = this.#parts;
    return env === record.env || ((await provider.sameEnvironment?.(record.env, env)) ?? false);
  }

  async end(notice?: string): Promise<void> {
    await Promise.all(this.#all.map((held) => held.end(notice)));
  }

  /** Replays earlier cells. Undefined: no cells to replay. A kernel that hangs during the replay is dropped. */
  async #rebuild(
    kernel: Kernel,
    earlier: PastCell[],
    { signal, progress = () => {} }: InstallOptions,
  ): Promise<Replayed | undefined> {
    const { record, store, guest, restore = "none", stopGraceMs = STOP_GRACE_MS, defaultTimeoutMs } = this.#parts;
    if (restore === "none") return undefined;
    const since = earlier.slice(record.cellsBeforeReset ?? 0).filter(({ language }) => language === "python");
    const { cellOptions } = guest ?? {};
    const options = { timeoutMs: defaultTimeoutMs, graceMs: stopGraceMs, cellOptions, signal, progress };
    let replayed: Replayed | undefined;
    if (restore === "replay-all") {
      const succeeded = since.filter(({ status }) => status === "ok").map(({ code }) => code);
      const codes = (await guest?.cellsToReplay?.(succeeded, this.#session)) ?? succeeded;
      if (codes.length > 0) replayed = await replayAll(kernel, codes, options);
    } else if (since.length > 0) {
      const outputsOf = async (id: string) => (await store.execution(record.id, id))?.outputs ?? [];
      replayed = await replay(kernel, since, { ...options, outputsOf });
    }
    if (replayed?.isUnusable) await this.of("python").drop(kernel);
    return replayed;
  }

  async #cellsBefore(executionId: string | undefined) {
    const { store, record } = this.#parts;
    return (await store.cells(record.id)).filter(({ id }) => id !== executionId);
  }

  get #all(): KernelSlot[] {
    return [this.#held.python, this.#held.bash];
  }
}
