import { afterAll } from "vitest";

/** What to do when a test file is over. Collected here, since a running test cannot add a hook of its own. */
const tasks: (() => unknown)[] = [];
afterAll(async () => {
  for (const task of tasks.splice(0).reverse()) await task();
});

export function atEnd(task: () => unknown): void {
  tasks.push(task);
}
