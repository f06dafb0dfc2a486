import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { resolve } from "node:path";
import { at, type Folder } from "./folder.ts";

/** Linux: a reference only. Needs no permission on the file, and opening a FIFO or device has no effect. */
const O_PATH = 0o10000000;

/**
 * A directory held by a file descriptor. Node has no `openat`, but `/proc/self/fd/<n>/name` is equivalent: the lookup
 * continues from the open directory, so a symlink swapped in after a check has no effect (no TOCTOU race).
 */
export function holdFolder(path: string): Folder {
  // A trailing slash would make the kernel follow a symlink in the last component.
  return hold(resolve(path));
}

function hold(path: string | Buffer): Folder {
  const fd = openSync(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const folder: Folder = {
    self: `/proc/self/fd/${fd}`,
    enter: (name) => hold(at(folder, name)),
    openFile(name, accept) {
      const reference = openSync(at(folder, name), O_PATH | constants.O_NOFOLLOW);
      try {
        accept(fstatSync(reference, { bigint: true }));
        return openSync(`/proc/self/fd/${reference}`, constants.O_RDONLY | constants.O_NONBLOCK);
      } finally {
        closeSync(reference);
      }
    },
    close: () => closeSync(fd),
  };
  return folder;
}
