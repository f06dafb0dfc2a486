import { expect, test } from "vitest";
import { checkedEvent } from "../../src/kernels/checked-event.ts";

test("an error that a kernel could send passes unchanged", () => {
  const error = { type: "error", name: "ValueError", message: "no\ud83d\ude42", traceback: ["a", "b".repeat(5_000)] };
  expect(checkedEvent(error)).toEqual(error);
});

test("a forged error is cut to what a real one can say", () => {
  const error = checkedEvent({
    type: "error",
    name: "n".repeat(1e6),
    message: "m".repeat(1e7),
    traceback: Array.from({ length: 1e5 }, () => "t".repeat(1e4)),
  });
  expect(JSON.stringify(error).length).toBeLessThan(1_200_000);
  expect(error).toMatchObject({ traceback: { length: 1_000 } });
});

test("of a traceback only its texts are kept", () => {
  expect(checkedEvent({ type: "error", name: "E", message: "m", traceback: [1, "line", null, {}] })).toMatchObject({
    traceback: ["line"],
  });
  expect(checkedEvent({ type: "error", name: "E", message: 1, traceback: [] })).toBeUndefined();
});
