import { createHash } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { type NetProxy, openProxy } from "./proxy.ts";

export interface SessionProxiesConfig {
  allow: string[];
  log: Log;
}

interface Slot {
  sessionId: string;
  runDir: string;
}

interface Shared {
  proxy: Promise<NetProxy>;
  users: number;
}

/** One filtering proxy per session, shared by its kernels and unreachable for others. */
export class SessionProxies {
  readonly #config: SessionProxiesConfig;
  readonly #suffix: string;
  readonly #open = new Map<string, Shared>();
  /** By folder: a proxy that is closing still removes its socket, so the next one must wait. */
  readonly #closing = new Map<string, Promise<void>>();

  constructor(config: SessionProxiesConfig) {
    this.#config = config;
    this.#suffix = createHash("sha256").update(config.allow.join()).digest("hex").slice(0, 8);
  }

  /**
   * The folder of a session's socket. Its name contains a hash of the rules: an orphaned kernel finds the next server's
   * proxy only if the rules are the same.
   */
  folderOf({ runDir }: Pick<Slot, "runDir">): string {
    return join(runDir, `net-${this.#suffix}`);
  }

  /** Opens the session's proxy if needed. It closes when every holder has released it. */
  async hold({ sessionId, runDir }: Slot): Promise<{ release(): Promise<void> }> {
    const folder = this.folderOf({ runDir });
    let shared = this.#open.get(folder);
    if (!shared) {
      const closed = this.#closing.get(folder) ?? Promise.resolve();
      shared = { proxy: closed.then(() => openProxy({ folder, sessionId, ...this.#config })), users: 0 };
      this.#open.set(folder, shared);
    }
    const held = shared;
    held.users += 1;
    let isReleased = false;
    const release = async (): Promise<void> => {
      if (isReleased) return;
      isReleased = true;
      held.users -= 1;
      if (held.users === 0) await this.#close(folder, held);
    };
    try {
      await held.proxy;
    } catch (error) {
      await release();
      throw error;
    }
    return { release };
  }

  /** The folders stay: orphaned kernels have them mounted. */
  async dispose(): Promise<void> {
    const proxies = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(proxies.map(async ({ proxy }) => (await proxy.catch(() => undefined))?.dispose()));
  }

  async #close(folder: string, { proxy }: Shared): Promise<void> {
    if (this.#open.get(folder)?.proxy === proxy) this.#open.delete(folder);
    const closed = (async () => {
      await (await proxy.catch(() => undefined))?.dispose();
      await rm(folder, { recursive: true, force: true });
    })();
    this.#closing.set(folder, closed);
    await closed;
    if (this.#closing.get(folder) === closed) this.#closing.delete(folder);
  }
}
