// Exchanges `d`, a folder, for `l`, a link that leads out, and back, as fast as it can, in the folder it is given. When
// that folder was replaced by a new one, it goes on in the new one; one that is being removed it does not leave alone.
// Usage: swapper.mjs <folder> <where the link leads>

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

/** Whoever writes to `d/file` just while `d` is away makes a new `d`, and the exchange is stuck. */
function repair() {
  try {
    if (existsSync("aside")) {
      rmSync("d", { recursive: true, force: true });
      renameSync("aside", "d");
      if (!lstatSync("l", { throwIfNoEntry: false })) symlinkSync(outside, "l");
    }
  } catch {
    // The folder itself is gone, or not there yet.
  }
}
