import { expect, test } from "vitest";
import { Lines } from "../../../src/toolsets/mcp-run-python/lines.ts";

test("lines come when they are finished, each on its own stream, without colours", () => {
  const lines = new Lines();
  expect(lines.add("stdout", "a")).toEqual([]);
  expect(lines.add("stderr", "x\n\ny")).toEqual(["x", ""]);
  expect(lines.add("stdout", "b\n\u001b[31mc\u001b[0m\nd")).toEqual(["ab", "c"]);
  expect(lines.rest()).toEqual([
    ["stdout", "d"],
    ["stderr", "y"],
  ]);
  expect(lines.rest()).toEqual([]);
});
