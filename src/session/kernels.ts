import type { Language } from "../execution.ts";
import type { Kernel, KernelInfo } from "../kernels/kernel.ts";
import { HeldKernel, type HeldKernelParts } from "./held-kernel.ts";

/** The kernels of one session: at most one for each language, started when they are wanted. */
export class SessionKernels {
  readonly #held: Record<Language, HeldKernel>;

  /** `onDeath` is told when a kernel is gone, and returns true if somebody's reply will say so. */
  constructor(
    parts: HeldKernelParts,
    onDeath: (kernel: Kernel, reason: string) => boolean,
    losses: Partial<Record<Language, string>> = {},
  ) {
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

  async end(loss?: string): Promise<void> {
    await Promise.all(this.#all.map((held) => held.end(loss)));
  }

  get #all(): HeldKernel[] {
    return [this.#held.python, this.#held.bash];
  }
}
