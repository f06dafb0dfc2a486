import { afterAll } from "vitest";

/** Cleanup at the end of a test file. Collected here, because a running test cannot add a hook. */
const tasks: (() => unknown)[] = [];
afterAll(async () => {
  for (const task of tasks.splice(0).reverse()) await task();
});

export function atEnd(task: () => unknown): void {
  tasks.push(task);
}
