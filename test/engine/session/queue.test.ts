import { describe, expect, test } from "vitest";
import { CellQueue, QueueTotal } from "../../../src/engine/session/queue.ts";
import { JsonText } from "../../../src/json-text.ts";

const MB = 1024 * 1024;
const busy = expect.objectContaining({ code: "kernel_busy" });

describe("a session's queue", () => {
  test("takes so many cells, and another when one has ended", () => {
    const queue = new CellQueue("s", new QueueTotal());
    const leave = Array.from({ length: 128 }, () => queue.admit("1"));
    expect(() => queue.admit("1")).toThrow(busy);
    expect(() => queue.admit("1")).toThrow("Session `s` already has 128 queued or running cells.");
    leave[0]?.();
    queue.admit("1");
  });

  test("takes one cell of any size, but no more large ones behind it; small ones always", () => {
    const queue = new CellQueue("s", new QueueTotal());
    const leave = queue.admit("x".repeat(40 * MB));
    expect(() => queue.admit("x".repeat(MB))).toThrow("with 40 MB of code and variables");
    queue.admit("small");
    leave();
    queue.admit("x".repeat(10 * MB));
    expect(() => queue.admit("x".repeat(10 * MB))).toThrow(busy);
  });

  test.each([
    ["text", "x".repeat(9 * MB)],
    ["bytes", new Uint8Array(9 * MB)],
    ["values", new JsonText("x".repeat(9 * MB))],
  ])("counts variables: %s", (_kind, value) => {
    const queue = new CellQueue("s", new QueueTotal());
    queue.admit("1", { value });
    expect(() => queue.admit("1", { value })).toThrow(busy);
  });

  test("is bounded for all sessions together, and leaves room for small cells of others", () => {
    const total = new QueueTotal();
    const large = "x".repeat(50 * MB);
    const leave = Array.from({ length: 5 }, (_, index) => new CellQueue(`s${index}`, total).admit(large));
    const other = new CellQueue("other", total);
    expect(() => other.admit(large)).toThrow("Queued and running cells of all sessions hold 250 MB");
    other.admit("small")();
    leave[0]?.();
    other.admit(large);
  });
});
