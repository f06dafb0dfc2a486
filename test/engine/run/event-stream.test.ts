import { expect, test } from "vitest";
import { type EventListener, eventStream } from "../../../src/engine/run/event-stream.ts";
import type { ExecutionEvent } from "../../../src/execution.ts";

const printed = (text: string): ExecutionEvent => ({ type: "stream", name: "stdout", text });
const done: ExecutionEvent = { type: "done", status: "ok", executionCount: 1 };

function start() {
  const listeners = new Set<EventListener>();
  const events = eventStream({
    phase: "running",
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  const tell = (...all: ExecutionEvent[]) => {
    for (const event of all) for (const listener of listeners) listener(event);
  };
  return { events, tell, listeners };
}

test("a reader that is too slow misses output, gets one mark, and gets the end", async () => {
  const { events, tell } = start();
  tell(printed("x".repeat(5_000_000)), printed("lost"), printed("lost, too"), done);
  const read: ExecutionEvent[] = [];
  for await (const event of events) read.push(event);
  expect(read.map((event) => (event.type === "stream" ? event.text.slice(0, 30).trim() : event.type))).toEqual([
    "x".repeat(30),
    "[output dropped: the reader w",
    "done",
  ]);
});

test("a reader that keeps up misses nothing, and one that leaves is not waited for", async () => {
  const { events, tell, listeners } = start();
  tell(printed("one"), printed("two"));
  const read: ExecutionEvent[] = [];
  for await (const event of events) {
    read.push(event);
    if (read.length === 2) break;
  }
  expect(read).toEqual([printed("one"), printed("two")]);
  expect(listeners.size).toBe(0);
});
