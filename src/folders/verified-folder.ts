import { closeSync, constants, fstatSync, lstatSync, openSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { at, type Folder } from "./folder.ts";

/**
 * A directory identified by its path, for systems without `/proc/self/fd`. Every step is verified, and a file again
 * after it was opened. A symlink swapped in and out between two checks is not noticed (a TOCTOU race), which is why
 * Linux uses descriptors.
 */
export function verifyFolder(path: string): Folder {
  if (!lstatSync(path).isDirectory()) throw refusal("ENOTDIR", path);
  return verified(realpathSync(path));
}

function verified(self: string): Folder {
  const folder: Folder = {
    self,
    enter(name) {
      const path = join(self, String(name));
      if (!lstatSync(path).isDirectory()) throw refusal("ENOTDIR", path);
      if (realpathSync(path) !== path) throw refusal("ELOOP", path);
      return verified(path);
    },
    openFile(name, accept) {
      const path = at(folder, name);
      const seen = lstatSync(path, { bigint: true });
      accept(seen);
      // Windows has neither flag.
      const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
      const fd = openSync(path, flags);
      try {
        const opened = fstatSync(fd, { bigint: true });
        if (opened.ino !== seen.ino || opened.dev !== seen.dev) throw refusal("ELOOP", String(path));
        if (realpathSync(self) !== self) throw refusal("ELOOP", self);
        return fd;
      } catch (error) {
        closeSync(fd);
        throw error;
      }
    },
    close() {},
  };
  return folder;
}

function refusal(code: "ELOOP" | "ENOTDIR", path: string): Error {
  return Object.assign(new Error(`${code}: \`${path}\` is not the folder it was`), { code, syscall: "open" });
}
