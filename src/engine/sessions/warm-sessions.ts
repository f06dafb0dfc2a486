import type { KernelProvider } from "../../kernels/kernel.ts";
import type { Log } from "../../log.ts";
import type { Store } from "../../store/store.ts";
import type { SessionFolders } from "./folders.ts";

export interface WarmSessionsParts {
  provider: KernelProvider;
  folders: SessionFolders;
  store: Store;
  log: Log;
  /** How many sessions to prepare. */
  warm: number;
}

/** Ids of future sessions, whose kernels are started in advance. Empty until `fill` is first called. */
export class WarmSessions {
  readonly #parts: WarmSessionsParts;
  readonly #ids = new Set<string>();
  #filling = 0;
  #isWanted = false;
  #isOver = false;

  constructor(parts: WarmSessionsParts) {
    this.#parts = parts;
  }

  /** Starts the missing kernels. Returns at once. */
  fill(): void {
    const { provider, warm, log } = this.#parts;
    if (!provider.warm || this.#isOver) return;
    this.#isWanted = true;
    for (let missing = warm - this.#ids.size - this.#filling; missing > 0; missing -= 1) {
      this.#filling += 1;
      void this.#add()
        .catch((error) => log.warn("cannot prepare a session in advance", error))
        .finally(() => {
          this.#filling -= 1;
        });
    }
  }

  take(): string | undefined {
    const [id] = this.#ids;
    if (id) this.#ids.delete(id);
    return id;
  }

  /** Replaces a session that was taken. */
  refill(): void {
    if (this.#isWanted) this.fill();
  }

  /** Starts no more kernels. */
  stop(): void {
    this.#isOver = true;
  }

  /** Deletes the unused folders, once the provider has ended their kernels. */
  async forget(): Promise<void> {
    await Promise.all([...this.#ids].map((id) => this.#parts.store.forget(id)));
  }

  async #add(): Promise<void> {
    const { provider, folders } = this.#parts;
    const id = await folders.claimNew();
    const slot = { sessionId: id, ...(await folders.forgetOnFailure(id, () => folders.of(id))) };
    this.#ids.add(id);
    if (!this.#isOver) provider.warm?.(slot);
  }
}
