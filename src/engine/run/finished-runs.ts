import type { Run } from "./run.ts";

/** The newest cells up to this number, and older ones only while their outputs together stay below `MAX_CHARS`. */
const MAX_RUNS = 50;
const MAX_CHARS = 8 * 1024 * 1024;
/**
 * The newest cell alone may be larger: all that a cell may show, unless that is parsed JSON, which takes more memory
 * than its text.
 */
const MAX_NEWEST_CHARS = 20 * 1024 * 1024;

/**
 * Finished cells that stay in memory with their outputs, so that late output can be added to their records. Cells
 * beyond the memory limits are in the history only.
 */
export class FinishedRuns {
  /** Newest last. */
  readonly #held = new Map<string, { run: Run; chars: number }>();

  add(run: Run): void {
    this.#held.set(run.id, { run, chars: run.chars });
  }

  get(id: string): Run | undefined {
    return this.#held.get(id)?.run;
  }

  /** Counts late output. */
  grow(id: string, chars: number): void {
    const held = this.#held.get(id);
    if (held) held.chars += chars;
  }

  /** Removes the runs beyond the limits, and returns them. */
  release(): Run[] {
    const released: Run[] = [];
    let count = 0;
    let chars = 0;
    for (const [id, held] of [...this.#held].reverse()) {
      count += 1;
      chars += held.chars;
      if (count <= MAX_RUNS && chars <= (count === 1 ? MAX_NEWEST_CHARS : MAX_CHARS)) continue;
      this.#held.delete(id);
      released.push(held.run);
    }
    return released;
  }
}
