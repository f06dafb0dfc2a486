import type { KernelProvider } from "../kernels/kernel.ts";
import type { Log } from "../log.ts";
import type { Store } from "../store/store.ts";
import type { SessionFolders } from "./folders.ts";

export interface ReserveParts {
  provider: KernelProvider;
  folders: SessionFolders;
  store: Store;
  log: Log;
  /** How many. */
  warm: number;
}

/** Ids of sessions to come, whose kernels are made ready in advance. Empty until `fill` is first called. */
export class Reserve {
  readonly #parts: ReserveParts;
  readonly #ids = new Set<string>();
  #filling = 0;
  #isWanted = false;
  #isOver = false;

  constructor(parts: ReserveParts) {
    this.#parts = parts;
  }

  /** Starts what is missing. Returns at once. */
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

  /** Makes up for what was taken. */
  refill(): void {
    if (this.#isWanted) this.fill();
  }

  /** No more kernels are to be started. */
  stop(): void {
    this.#isOver = true;
  }

  /** The provider has ended the kernels. */
  async forget(): Promise<void> {
    await Promise.all([...this.#ids].map((id) => this.#parts.store.forget(id)));
  }

  async #add(): Promise<void> {
    const { provider, folders } = this.#parts;
    const id = await folders.claimNew();
    const slot = { sessionId: id, ...(await folders.orForget(id, () => folders.of(id))) };
    this.#ids.add(id);
    if (!this.#isOver) provider.warm?.(slot);
  }
}
