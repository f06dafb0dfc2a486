import { randomBytes, randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { WarmSlot } from "../kernels/kernel.ts";
import type { Log } from "../log.ts";
import { removeFolder } from "../remove-folder.ts";
import type { Store } from "../store/store.ts";

export interface SessionFoldersParts {
  store: Store;
  /** The user's own folder that all sessions work in, instead of one for each. */
  sharedWorkspaceDir?: string | undefined;
  /** What new ids look like. */
  ids?: "short" | "uuid" | undefined;
  log: Log;
}

/** Ids of sessions and the folders that go with them. */
export class SessionFolders {
  readonly #parts: SessionFoldersParts;

  constructor(parts: SessionFoldersParts) {
    this.#parts = parts;
  }

  /** An id that nobody has, claimed for this process. */
  async claimNew(): Promise<string> {
    const id = this.#parts.ids === "uuid" ? randomUUID() : randomBytes(12).toString("base64url");
    await this.#parts.store.claim(id);
    return id;
  }

  async of(id: string): Promise<Omit<WarmSlot, "sessionId">> {
    const folder = await this.#parts.store.folder(id);
    const { sharedWorkspaceDir = join(folder, "workspace") } = this.#parts;
    const folders = { workspaceDir: sharedWorkspaceDir, runDir: join(folder, "run") };
    for (const dir of Object.values(folders)) await mkdir(dir, { recursive: true, mode: 0o700 });
    return folders;
  }

  async removeRunDir(id: string): Promise<void> {
    await removeFolder(join(await this.#parts.store.folder(id), "run"));
  }

  /** What fails half-way leaves no folder behind. */
  async orForget<T>(id: string, make: () => Promise<T>): Promise<T> {
    const { store, log } = this.#parts;
    try {
      return await make();
    } catch (error) {
      await store.forget(id).catch((reason) => log.warn(`${id} stays behind`, reason));
      throw error;
    }
  }
}
