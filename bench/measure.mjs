/** Median of `count` timings of an async function, in milliseconds. What it returns is not kept. */
export async function median(count, work) {
  const times = [];
  for (let i = 0; i < count; i += 1) {
    const began = performance.now();
    await work(i);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[Math.floor(count / 2)];
}

export class Report {
  #failed = false;

  /** A figure for people. */
  say(what, value) {
    console.log(`${what.padEnd(58)} ${value}`);
  }

  /** A ratio with a bar: `atLeast` or `atMost`. */
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
