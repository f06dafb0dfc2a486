import type { Run } from "./run.ts";

/** So many of the newest cells, and of the older ones only while all showed less than this. */
const MAX_RUNS = 50;
const MAX_CHARS = 8 * 1024 * 1024;
/** The newest alone may have all that a cell may show, unless it is a tree of values, which takes far more than its text. */
const MAX_NEWEST_CHARS = 20 * 1024 * 1024;

/**
 * Cells that are over and still held with all that they showed, so that late output can be added to their records. Which
 * of them are is a matter of memory: the others are in the history only.
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

  /** Late output made it larger. */
  grow(id: string, chars: number): void {
    const held = this.#held.get(id);
    if (held) held.chars += chars;
  }

  /** Lets go of those that are too many or too much, and returns them. */
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
