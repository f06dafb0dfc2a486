// Claims a folder repeatedly in competition with other processes. Usage: claim-fighter.mjs <folder> <how>

import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, startTimeOf } from "../../dist/process/process-life.js";
import { claim, release, thisClaimant } from "../../dist/store/claim.js";

const [, , folder, how] = process.argv;

const me = await thisClaimant();
const inside = join(folder, "inside");
const note = (what) => appendFileSync(join(folder, "notes"), `${what}\n`);
const ways = { real: [claim, release], naive: [naiveClaim, naiveRelease] };
const [take, give] = ways[how];

note("ready");
for (;;) {
  if (!(await take(folder, me))) {
    await sleep(Math.random() * 2);
    continue;
  }
  try {
    writeFileSync(inside, String(process.pid), { flag: "wx" });
  } catch {
    note("two at once");
    continue;
  }
  note("won");
  await sleep(Math.random() * 2);
  rmSync(inside);
  // Half of the time the owner exits without releasing, like a crashed server.
  if (Math.random() < 0.5) process.kill(process.pid, "SIGKILL");
  await give(folder, me);
}

// The control: check whether the owner is alive, then write. This has a race.
async function naiveClaim() {
  const owner = await readFile(join(folder, "naive"), "utf8")
    .then(JSON.parse)
    .catch(() => undefined);
  if (owner && owner.pid !== me.pid && (await isAlive(owner.pid, owner.start))) return false;
  await writeFile(join(folder, "naive"), JSON.stringify({ pid: me.pid, start: await startTimeOf(me.pid) }));
  return true;
}
async function naiveRelease() {
  rmSync(join(folder, "naive"), { force: true });
}
