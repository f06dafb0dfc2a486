// Changes files as fast as it can, until it is killed: node racer.mjs swap|rewrite|truncate FOLDER [OUTSIDE]
import {
  closeSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";

const [, , mode, folder, outside] = process.argv;
process.chdir(folder);
const PIECES = 64;
const PIECE_BYTES = 4_096;
/** If writing pauses for this long, the file was at rest, half one version, half another. */
const REST_MS = 10;

if (mode === "swap") {
  mkdirSync("d", { recursive: true });
  writeFileSync("d/file.txt", "mine");
  symlinkSync(outside, "l");
} else writeFileSync("moving.txt", "a".repeat(PIECES * PIECE_BYTES));
process.send("ready");
for (let turn = 0; ; turn += 1) {
  if (mode === "swap") swap();
  else rewrite("ab"[turn % 2]);
}

/** `d` is a folder, then for a moment a link that leads out, then the folder again. */
function swap() {
  try {
    renameSync("d", "aside");
    renameSync("l", "d");
    renameSync("d", "l");
    renameSync("aside", "d");
  } catch {
    repair();
  }
}

/** Another process wrote to `d/file.txt` while `d` was away and so recreated it. It may still be writing: try next turn. */
function repair() {
  try {
    if (lstatSync("aside", { throwIfNoEntry: false })) {
      rmSync("d", { recursive: true, force: true });
      renameSync("aside", "d");
    }
    if (!lstatSync("l", { throwIfNoEntry: false })) symlinkSync(outside, "l");
  } catch {}
}

function rewrite(letter) {
  const fd = openSync("moving.txt", mode === "truncate" ? "w" : "r+");
  const piece = letter.repeat(PIECE_BYTES);
  for (let at = 0, last = performance.now(); at < PIECES; at += 1) {
    writeSync(fd, piece, at * PIECE_BYTES);
    if (performance.now() - last > REST_MS) process.send("rested");
    last = performance.now();
  }
  if (mode === "truncate") ftruncateSync(fd, PIECE_BYTES);
  closeSync(fd);
  // Pauses now and then, so that a consistent read is possible at all.
  if (Math.random() < 0.05) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 40);
}
