import type { Language } from "../execution.ts";
import type { AdoptedKernel, InstallOptions, Kernel, KernelProvider } from "../kernels/kernel.ts";
import type { SessionRecord, Store } from "../store/store.ts";
import { FRESH_KERNEL_NOW } from "./stop.ts";

export interface HeldKernelParts {
  record: SessionRecord;
  folder: { workspaceDir: string; runDir: string };
  provider: KernelProvider;
  store: Store;
  /** Asked before a kernel is started; throws `session_limit`. */
  admit: () => void;
}

/** A session's one kernel of a language: started when it is wanted, missed when it dies. */
export class HeldKernel {
  readonly #language: Language;
  readonly #parts: HeldKernelParts;
  /** Told when the kernel is gone; true if somebody's reply will say so. */
  readonly #onDeath: (kernel: Kernel, reason: string) => boolean;
  #current: Kernel | undefined;
  #starting = false;
  /** Why the next cell finds no variables, until it has been told. */
  #loss: string | undefined;
  /** The kernel before was lost, and not given up by anybody's wish. */
  #isMissed = false;
  #missedPlace: string | undefined;

  constructor(
    language: Language,
    parts: HeldKernelParts,
    onDeath: (kernel: Kernel, reason: string) => boolean,
    loss?: string,
  ) {
    this.#language = language;
    this.#parts = parts;
    this.#onDeath = onDeath;
    this.#loss = loss;
  }

  get current(): Kernel | undefined {
    return this.#current;
  }

  get exists(): boolean {
    return this.#current !== undefined || this.#starting;
  }

  /** A session stays in the environment of its first kernel. */
  async start({ env, ...waiting }: { env?: string | undefined } & InstallOptions): Promise<Kernel> {
    const { provider, store, record, folder, admit } = this.#parts;
    admit();
    this.#starting = true;
    try {
      const spec = { language: this.#language, env: record.env ?? env };
      const session = { sessionId: record.id, sessionName: record.name, owner: record.owner, ...folder };
      const kernel = await provider.start(spec, { ...session, ...waiting });
      this.#take(kernel);
      if (record.env === undefined && env !== undefined) {
        record.env = env;
        await store.saveSession({ ...record });
      }
      return kernel;
    } finally {
      this.#starting = false;
    }
  }

  /** The kernel that an earlier run of the program left behind, if it still lives: nothing was lost then. */
  async adopt(signal: AbortSignal): Promise<AdoptedKernel | undefined> {
    const { provider, record, folder } = this.#parts;
    if (this.exists) return undefined;
    this.#starting = true;
    try {
      const adopted = await provider.adopt?.(this.#language, { sessionId: record.id, ...folder, signal });
      if (!adopted) return undefined;
      this.#take(adopted.kernel);
      this.#loss = undefined;
      return adopted;
    } finally {
      this.#starting = false;
    }
  }

  /** Why variables are gone. Asking for it counts as telling it. */
  takeLoss(): string | undefined {
    const loss = this.#loss;
    this.#loss = undefined;
    return loss;
  }

  /** Whether the kernel takes the place of one that was lost. Asking counts as telling. */
  takeMissed(): boolean {
    const isMissed = this.#isMissed;
    this.#isMissed = false;
    return isMissed;
  }

  /** Where the variables were of the kernel that this one takes the place of. Asking counts as telling. */
  takeMissedPlace(): string | undefined {
    const place = this.#missedPlace;
    this.#missedPlace = undefined;
    return place;
  }

  /** Ends a kernel that is of no more use. */
  async drop(kernel: Kernel): Promise<void> {
    if (this.#current === kernel) {
      this.#current = undefined;
      this.#isMissed = true;
      this.#missedPlace = kernel.info.place ?? this.#missedPlace;
    }
    await kernel.dispose();
  }

  /** Ends the kernel, if there is one. `loss` is what the next cell is told. */
  async end(loss?: string): Promise<void> {
    // Whoever never had a kernel has nothing to miss.
    if (this.#current || loss === undefined) this.#loss = loss;
    if (this.#current) await this.drop(this.#current);
    this.#isMissed = loss !== undefined;
  }

  #take(kernel: Kernel): void {
    this.#current = kernel;
    void kernel.closed.then(({ reason }) => this.#missed(kernel, reason));
  }

  #missed(kernel: Kernel, reason: string): void {
    const told = this.#onDeath(kernel, reason);
    if (this.#current !== kernel) return;
    void this.drop(kernel);
    if (!told) this.#loss = `The kernel died between cells: ${reason} ${FRESH_KERNEL_NOW}`;
  }
}
