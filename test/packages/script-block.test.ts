import { describe, expect, test } from "vitest";
import { requirementsOf } from "../../src/packages/script-block.ts";

const block = (...lines: string[]) =>
  ["# /// script", ...lines.map((line) => (line ? `# ${line}` : "#")), "# ///"].join("\n");

describe("the block of a script", () => {
  test("names the dependencies", () => {
    const code = `"""A cell."""\n${block('requires-python = ">=3.11"', "dependencies = [", '  "requests<3",', "  'rich', # for looks", "]")}\nimport rich\n`;
    expect(requirementsOf(code)).toEqual(["requests<3", "rich"]);
    expect(requirementsOf(code.replaceAll("\n", "\r\n"))).toEqual(["requests<3", "rich"]);
  });

  test("may be missing, or name none", () => {
    expect(requirementsOf("x = 1")).toBeUndefined();
    expect(requirementsOf("# /// other\n# dependencies = ['a']\n# ///")).toBeUndefined();
    expect(requirementsOf("  # /// script\n  # ///")).toBeUndefined();
    expect(requirementsOf(block('requires-python = ">=3.11"'))).toBeUndefined();
    expect(requirementsOf(block("dependencies = []"))).toEqual([]);
  });

  test.each<[string, string[]]>([
    ['dependencies = ["a", "b"] # comment', ["a", "b"]],
    ["dependencies=['a\\b']", ["a\\b"]],
    ['dependencies = ["\\u0061\\t\\"]"]', ['a\t"]']],
    ["dependencies = [\"\"\"\na\"\"\", '''b''',]", ["a", "b"]],
    ['"dependencies" = ["a; python_version < \'4\'"]', ["a; python_version < '4'"]],
    ['other = { x = 1, y = [true] }\ndate = 2026-11-15 10:00:00\nn = -1.5e3\ndependencies = ["a"]', ["a"]],
    ['dependencies = ["a"]\n[tool.uv]\ndependencies = "not these"\n[[tool.uv.index]]\nurl = "x"', ["a"]],
    ['tool.x.dependencies = ["b"]\ndependencies = ["a"]', ["a"]],
    ['big = 99999999999999999999\ndependencies = ["a"]', ["a"]],
    ['\n# comment\n\ndependencies = [\n  # nothing\n  "a"\n]\n', ["a"]],
  ])("reads %j", (toml, expected) => {
    expect(requirementsOf(block(...toml.split("\n")))).toEqual(expected);
  });

  test("reaches to the last closing line", () => {
    expect(() => requirementsOf("# /// script\n# dependencies = ['a']\n# ///\n# ///\n")).toThrow("is invalid");
    expect(requirementsOf("# /// script\n# dependencies = ['a']\n# ///\n\n# ///\n")).toEqual(["a"]);
  });

  test.each([
    ["no end", "# /// script\n# dependencies = ['a']\nimport a", "closing line `# ///` is missing"],
    ["a line without #", "# /// script\ndependencies = ['a']\n# ///", "closing line `# ///` is missing"],
    ["two blocks", `${block("dependencies = []")}\n\n${block("dependencies = []")}`, "Multiple script blocks found"],
    ["no list", block('dependencies = "a"'), "not a list of strings"],
    ["a number in the list", block('dependencies = ["a", 1]'), "not a list of strings"],
    ["an open list", block('dependencies = ["a"'), "line 1 is not valid TOML (expected comma or end of structure)"],
    [
      "a missing comma",
      block("dependencies = [", '"a"', '"b"]'),
      "line 3 is not valid TOML (expected comma or end of structure)",
    ],
    ["a bare word", block("dependencies = [a]"), "line 1 is not valid TOML (invalid value)"],
    ["a bad escape", block('dependencies = ["\\q"]'), "(unrecognised escape sequence)"],
    ["a key twice", block("dependencies = []", "dependencies = []"), "line 2 is not valid TOML (trying to redefine"],
    ["no equals sign", block("dependencies ['a']"), "(illegal character in key)"],
    ["rubbish after a value", block("dependencies = [] x"), "must be followed by an end-of-line"],
    ["lists too deep", block(`x = ${"[".repeat(5_000)}`), "excessively nested structures"],
    ["an open string", block('dependencies = ["a]'), "(unfinished string)"],
  ])("with %s is a sentence", (_, code, reason) => {
    expect(() => requirementsOf(code)).toThrow(expect.objectContaining({ code: "invalid_input" }));
    expect(() => requirementsOf(code)).toThrow(reason);
  });
});
