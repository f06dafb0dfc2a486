import { readFileSync } from "node:fs";

/** Median of `count` timings of an async function, in milliseconds. */
export async function median(count, work) {
  const times = [];
  for (let i = 0; i < count; i += 1) {
    const began = performance.now();
    await work(i);
    times.push(performance.now() - began);
  }
  return middle(times);
}

/** The median of numbers. */
export function middle(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

export class Report {
  #failed = false;

  /** A number for people. */
  say(what, value) {
    console.log(`${what.padEnd(58)} ${value}`);
  }

  /** A ratio with a limit: `atLeast` or `atMost`. */
  ratio(what, value, { atLeast, atMost }) {
    const ok = atLeast !== undefined ? value >= atLeast : value <= atMost;
    const bar = atLeast !== undefined ? `≥ ${atLeast}` : `≤ ${atMost}`;
    this.#failed ||= !ok;
    this.say(what, `${value.toFixed(2)}  (${bar}: ${ok ? "ok" : "MISSED"})`);
  }

  get failed() {
    return this.#failed;
  }
}

/** Medians of several kinds of work, interleaved, so that noise affects all of them. */
export async function mediansInTurn(count, works) {
  const times = works.map(() => []);
  for (let i = 0; i < count; i += 1) {
    for (const [column, work] of works.entries()) times[column].push(await median(1, work));
  }
  return times.map(middle);
}

export function descendants(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean)
    .map(Number);
  return [...children, ...children.flatMap(descendants)];
}

/** Resident memory. */
export function memoryMb(pids) {
  return pids.reduce(
    (sum, pid) => sum + Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024,
    0,
  );
}

/** Proportional set size. */
export function shareOfMemoryMb(pids) {
  return pids.reduce(
    (sum, pid) =>
      sum + Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0) / 1024,
    0,
  );
}
