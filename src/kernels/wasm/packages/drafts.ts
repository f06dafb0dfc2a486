import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../../log.ts";
import { announce, isPresent } from "./presence.ts";

/** Age above which a folder without an owner file is a leftover. */
const NEW_MS = 60_000;

/** Folder in which one image is built; images are not searched here. */
export interface Draft {
  folder: string;
  /** Becomes the image. */
  imageDir: string;
  siteDir: string;
  downloadsDir: string;
  remove(): Promise<void>;
}

/** `draftsDir` has to be a real path. */
export async function createDraft(draftsDir: string, log: Log): Promise<Draft> {
  const folder = join(draftsDir, randomBytes(8).toString("hex"));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const presence = await announce(join(folder, "owner"));
  const [imageDir, downloadsDir] = [join(folder, "image"), join(folder, "downloads")];
  const siteDir = join(imageDir, "site");
  for (const made of [siteDir, downloadsDir]) await mkdir(made, { recursive: true, mode: 0o755 });
  return {
    folder,
    imageDir,
    siteDir,
    downloadsDir,
    async remove() {
      await presence?.end();
      await rm(folder, { recursive: true, force: true }).catch((error) =>
        log.warn(`could not remove ${folder}`, error),
      );
    },
  };
}

/** Removes drafts of builders that were killed. */
export async function removeDeadDrafts(draftsDir: string, log: Log): Promise<void> {
  for (const name of await readdir(draftsDir).catch(() => [])) {
    const folder = join(draftsDir, name);
    const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Date.now() }));
    const owner = join(folder, "owner");
    if (existsSync(owner) ? await isPresent(owner) : Date.now() - mtimeMs < NEW_MS) continue;
    log.debug(`removing ${folder}, whose builder is gone`);
    await rm(folder, { recursive: true, force: true }).catch((error) => log.warn(`could not remove ${folder}`, error));
  }
}
