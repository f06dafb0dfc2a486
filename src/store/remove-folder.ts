import { randomUUID } from "node:crypto";
import { chmodSync, lstatSync, opendirSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ifThere, systemCode } from "./system-error.ts";

/** Entries removed before others get their turn: about a millisecond. */
const BATCH = 128;

/**
 * Removes a folder that no running cell can reach any more, whatever a cell made in it. Folders inside are first moved up
 * beside each other: a thousand of them in one another would make a path that no system call takes.
 */
export async function removeFolder(path: string, signal?: AbortSignal): Promise<void> {
  let done = 0;
  for (let found = true; found; ) {
    found = false;
    for await (const name of entries(path)) {
      found = true;
      const entry = Buffer.concat([Buffer.from(`${path}/`), name]);
      if (!isFolder(entry)) unlinkSync(entry);
      else {
        for await (const child of entries(entry)) {
          const inside = Buffer.concat([entry, Buffer.from("/"), child]);
          if (isFolder(inside)) renameSync(inside, join(path, randomUUID()));
          else unlinkSync(inside);
        }
        rmdirSync(entry);
      }
      if (signal?.aborted) return;
    }
  }
  rmdirSync(path);
}
