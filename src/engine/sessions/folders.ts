import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { WarmSlot } from "../../kernels/kernel.ts";
import type { Log } from "../../log.ts";
import { removeFolder } from "../../process/remove-folder.ts";
import type { Store } from "../../store/store.ts";
import type { Guest } from "../guest.ts";

export interface SessionFoldersParts {
  store: Store;
  /** One folder of the user's that all sessions work in, instead of one each. */
  sharedWorkspaceDir?: string | undefined;
  guest?: Guest | undefined;
  log: Log;
}

/** Session ids and their folders. */
export class SessionFolders {
  readonly #parts: SessionFoldersParts;

  constructor(parts: SessionFoldersParts) {
    this.#parts = parts;
  }

  /** A new, unused id, claimed for this process. */
  async claimNew(): Promise<string> {
    const id = this.#parts.guest?.newSessionId?.() ?? randomBytes(12).toString("base64url");
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

  /** Removes the session's folder if `make` fails. */
  async forgetOnFailure<T>(id: string, make: () => Promise<T>): Promise<T> {
    const { store, log } = this.#parts;
    try {
      return await make();
    } catch (error) {
      await store.forget(id).catch((reason) => log.warn(`session ${id}: cannot be removed`, reason));
      throw error;
    }
  }
}
