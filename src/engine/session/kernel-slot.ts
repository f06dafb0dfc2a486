import type { Language } from "../../execution.ts";
import type { AdoptedKernel, InstallOptions, Kernel, KernelProvider } from "../../kernels/kernel.ts";
import type { SessionRecord, Store } from "../../store/store.ts";
import type { LostKernel } from "../run/kernel-fate.ts";
import { FRESH_KERNEL_NOW } from "./stop.ts";

export interface KernelSlotParts {
  record: SessionRecord;
  folder: { workspaceDir: string; runDir: string };
  provider: KernelProvider;
  store: Store;
  /** Called before a kernel is started; throws `session_limit`. */
  admit: () => void;
}

/** The session's kernel for one language: started on demand; its death is noticed here. */
export class KernelSlot {
  readonly #language: Language;
  readonly #parts: KernelSlotParts;
  /** Called when the kernel is gone; true if a reply will report it. */
  readonly #onDeath: (kernel: Kernel, reason: string) => boolean;
  #current: Kernel | undefined;
  #starting = false;
  /** The previous kernel, if it was lost and not ended on purpose. The next cell reports it. */
  #lost: LostKernel | undefined;

  constructor(
    language: Language,
    parts: KernelSlotParts,
    onDeath: (kernel: Kernel, reason: string) => boolean,
    notice?: string,
  ) {
    this.#language = language;
    this.#parts = parts;
    this.#onDeath = onDeath;
    this.#lost = notice === undefined ? undefined : { notice };
  }

  get current(): Kernel | undefined {
    return this.#current;
  }

  get exists(): boolean {
    return this.#current !== undefined || this.#starting;
  }

  /** A session keeps the environment of its first kernel. */
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

  /** Takes over an orphaned kernel of a previous server process, if it is alive: nothing was lost then. */
  async adopt(signal: AbortSignal): Promise<AdoptedKernel | undefined> {
    const { provider, record, folder } = this.#parts;
    if (this.exists) return undefined;
    this.#starting = true;
    try {
      const adopted = await provider.adopt?.(this.#language, { sessionId: record.id, ...folder, signal });
      if (!adopted) return undefined;
      this.#take(adopted.kernel);
      this.#lost = undefined;
      return adopted;
    } finally {
      this.#starting = false;
    }
  }

  /** The lost kernel that the current one replaces. Taking it marks it as reported. */
  takeLost(): LostKernel | undefined {
    const lost = this.#lost;
    this.#lost = undefined;
    return lost;
  }

  /** Disposes of an unusable kernel. */
  async drop(kernel: Kernel): Promise<void> {
    if (this.#current === kernel) {
      this.#current = undefined;
      this.#lost = { ...this.#lost, place: kernel.info.place ?? this.#lost?.place };
    }
    await kernel.dispose();
  }

  /** Ends the kernel, if one runs. `notice` is for the next cell; absent: it was ended on purpose. */
  async end(notice?: string): Promise<void> {
    const kernel = this.#current;
    if (kernel) await this.drop(kernel);
    if (notice === undefined) this.#lost = undefined;
    else if (kernel) this.#lost = { ...this.#lost, notice };
  }

  #take(kernel: Kernel): void {
    this.#current = kernel;
    void kernel.closed.then(({ reason }) => this.#missed(kernel, reason));
  }

  #missed(kernel: Kernel, reason: string): void {
    const isReported = this.#onDeath(kernel, reason);
    if (this.#current !== kernel) return;
    void this.drop(kernel);
    if (!isReported)
      this.#lost = { ...this.#lost, notice: `The kernel died between cells: ${reason} ${FRESH_KERNEL_NOW}` };
  }
}
