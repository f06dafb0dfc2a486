// How long a scan of a large workspace blocks the event loop.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openLocalWorkspace } from "../dist/workspace/local/workspace.js";
import { measure, report, folder as root } from "./bench.mjs";
import { middle } from "./measure.mjs";

const FOLDERS = 100;
const FILES_EACH = 99;
const ROUNDS = 10;

await measure(async () => {
  for (let folder = 0; folder < FOLDERS; folder += 1) {
    mkdirSync(join(root, `${folder}`));
    for (let file = 0; file < FILES_EACH; file += 1) writeFileSync(join(root, `${folder}`, `${file}`), "");
  }
  const workspace = openLocalWorkspace(root);
  const nothing = { files: new Map(), complete: true };
  // Every file is new: the worst case of the comparison.
  const held = await longestTurns(ROUNDS, () => workspace.changedSince(nothing));
  report.ratio("10 000 files: longest hold of the event loop, ms (median)", held, { atMost: 20 });
});

/** Median over all rounds of the longest block of the event loop. */
async function longestTurns(rounds, work) {
  const longest = [];
  for (let round = 0; round < rounds; round += 1) {
    let max = 0;
    let last = performance.now();
    let over = false;
    const look = () => {
      const now = performance.now();
      max = Math.max(max, now - last);
      last = now;
      if (!over) setImmediate(look);
    };
    setImmediate(look);
    await work();
    over = true;
    look();
    longest.push(max);
  }
  return middle(longest);
}
