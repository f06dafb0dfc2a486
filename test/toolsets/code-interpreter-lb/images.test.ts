import { expect, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import { afterSetup } from "../../../src/toolsets/code-interpreter-lb/images.ts";
import { createFakeKernel } from "../../support/fake-kernel.ts";

async function run(setup: string): Promise<ExecutionEvent[]> {
  const kernel = createFakeKernel();
  const events: ExecutionEvent[] = [];
  const cell = () => kernel.execute("print of the cell");
  for await (const event of afterSetup(kernel, { setup, timeoutMs: 1_000 }, cell)) events.push(event);
  return events;
}

test("what the setup shows is not seen, and the cell runs after it", async () => {
  const events = await run("print of the setup");
  expect(events.map((event) => ("text" in event ? event.text : event.type))).toEqual(["of the cell\n", "done"]);
});

test("a setup that fails is the outcome, and the cell is not run", async () => {
  const events = await run("error no such image");
  expect(events.map(({ type }) => type)).toEqual(["error", "done"]);
  expect(JSON.stringify(events)).not.toContain("of the cell");
});
