// Changes a file constantly: all A, truncated, all B, truncated. Pauses now and then, so that a reader can succeed.

import { ftruncateSync, openSync, writeSync } from "node:fs";

const [, , path, fullBytes, cutBytes] = process.argv;
const fd = openSync(path, "r+");
const contents = ["A", "B"].map((letter) => Buffer.alloc(Number(fullBytes), letter));
const rest = new Int32Array(new SharedArrayBuffer(4));
process.send?.("ready");
for (let count = 0; ; count += 1) {
  writeSync(fd, contents[count % 2], 0, Number(fullBytes), 0);
  ftruncateSync(fd, Number(cutBytes));
  if (count % 200 === 0) Atomics.wait(rest, 0, 0, 60);
}
