import { describe, expect, test } from "vitest";
import { FinishedRuns } from "../../../src/engine/run/finished-runs.ts";
import { Run } from "../../../src/engine/run/run.ts";

const MB = 1024 * 1024;

function finished(id: string, chars: number): Run {
  const run = new Run({ code: "", language: "python", id }, () => {
    throw new Error("nothing is spilled here");
  });
  run.add({ type: "display", data: { "text/html": "x".repeat(chars) } });
  run.resolve();
  return run;
}

function hold(sizes: number[]): { runs: FinishedRuns; released: string[]; held: string[] } {
  const runs = new FinishedRuns();
  const ids = sizes.map((_, index) => `cell-${index}`);
  const released = sizes.flatMap((chars, index) => {
    runs.add(finished(`cell-${index}`, chars));
    return runs.release().map(({ id }) => id);
  });
  return { runs, released, held: ids.filter((id) => runs.get(id)) };
}

describe("cells that are over", () => {
  test("are held while they are few and small", () => {
    expect(hold([1_000, 1_000, 1_000]).released).toEqual([]);
    const many = hold(Array.from({ length: 53 }, () => 10));
    expect(many.released).toEqual(["cell-0", "cell-1", "cell-2"]);
    expect(many.held).toHaveLength(50);
  });

  test("are let go of from the oldest on when all together showed too much; the newest stays", () => {
    const { released, held } = hold([15 * MB, 3 * MB, 3 * MB, 3 * MB, 15 * MB]);
    expect(released).toEqual(["cell-0", "cell-1", "cell-3", "cell-2"]);
    expect(held).toEqual(["cell-4"]);
  });

  test("are not held if they showed values that take far more memory than their text", () => {
    const runs = new FinishedRuns();
    const run = finished("tree", 0);
    run.add({ type: "display", data: { "application/json": Array.from({ length: 1_000_000 }, () => []) } });
    runs.add(run);
    expect(runs.release()[0] === run).toBe(true);
  });

  test("are let go of when late output makes them too large", () => {
    const { runs } = hold([MB, MB, MB]);
    runs.grow("cell-1", 7 * MB);
    expect(runs.release().map(({ id }) => id)).toEqual(["cell-1", "cell-0"]);
    expect(runs.get("cell-2")).toBeDefined();
  });
});
