import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { resolve } from "node:path";
import { at, type Folder } from "./folder.ts";

/** Linux's "only a reference": needs no permission on the file, never blocks on a FIFO, wakes no device. */
const O_PATH = 0o10000000;

/**
 * A directory held by a descriptor. Node has no `openat`, but `/proc/self/fd/<n>/name` is the same thing: the kernel goes
 * on from the open directory, so nobody can put a link in place of what was looked at before.
 */
export function holdFolder(path: string): Folder {
  // A slash at the end would make the kernel follow a link in the last part.
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
