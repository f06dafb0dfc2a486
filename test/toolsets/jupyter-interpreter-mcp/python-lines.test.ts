import { expect, test } from "vitest";
import { pythonLines } from "../../../src/toolsets/jupyter-interpreter-mcp/python-lines.ts";

test.each([
  ["", []],
  ["a", ["a"]],
  ["a\n", ["a"]],
  ["a\n\n", ["a", ""]],
  ["a\r\nb\rc", ["a", "b", "c"]],
  ["a\fb\u2028c\u0085d", ["a", "b", "c", "d"]],
  ["\n", [""]],
])("lines of %j are those of Python", (text, lines) => {
  expect(pythonLines(text)).toEqual(lines);
});
