// Exchanges `d`, a folder, with `l`, a link that leads out, and back, as fast as possible, in the given folder. If that
// folder was replaced by a new one, it continues in the new one; it also interferes with one that is being removed.
// Usage: swapper.mjs <folder> <target of the link>

import { existsSync, lstatSync, renameSync, rmSync, symlinkSync } from "node:fs";

const [, , folder, outside] = process.argv;
process.send?.("ready");
for (;;) {
  try {
    process.chdir(folder);
    for (let count = 0; count < 100; count += 1) {
      renameSync("d", "aside");
      renameSync("l", "d");
      renameSync("d", "l");
      renameSync("aside", "d");
    }
  } catch {
    repair();
  }
}

/** A write to `d/file` while `d` is away creates a new `d`, which blocks the exchange. */
function repair() {
  try {
    if (existsSync("aside")) {
      rmSync("d", { recursive: true, force: true });
      renameSync("aside", "d");
      if (!lstatSync("l", { throwIfNoEntry: false })) symlinkSync(outside, "l");
    }
  } catch {
    // The folder itself is gone, or does not exist yet.
  }
}
