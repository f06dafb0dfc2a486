import { describe, expect, test } from "vitest";
import { normalRequirement, normalRequirements } from "../../src/packages/requirement.ts";

describe("a requirement", () => {
  test.each([
    ["sympy", "sympy"],
    ["  Sym_Py.Thing ", "sym-py-thing"],
    ["pandas==3.0.2", "pandas==3.0.2"],
    ["numpy >= 1.20 , != 1.24.0", "numpy!=1.24.0,>=1.20"],
    ["plotly[express,Kaleido_x] >=6", "plotly[express,kaleido-x]>=6"],
    ["thing[]", "thing"],
    ["requests (>=2.8.1)", "requests>=2.8.1"],
    ["a~=1.4.2", "a~=1.4.2"],
    ["a==1.*", "a==1.*"],
    ["a===weird-version", "a===weird-version"],
    ["a>=1!2.0+local.1", "a>=1!2.0+local.1"],
    [
      "tzdata; sys_platform == 'emscripten'  and python_version>='3.9'",
      "tzdata; sys_platform == 'emscripten' and python_version>='3.9'",
    ],
    ["a<2; extra == 'b'", "a<2; extra == 'b'"],
    ["0", "0"],
  ])("%s is read as %s", (text, expected) => {
    expect(normalRequirement(text)).toBe(expected);
    expect(normalRequirement(expected)).toBe(expected);
  });

  test.each([
    ["", "empty"],
    ["-r requirements.txt", "a pip option"],
    ["--index-url=https://example.com/simple", "a pip option"],
    ["pkg @ https://example.com/pkg-1.0-py3-none-any.whl", "contains a URL"],
    ["pkg@file:///tmp/pkg.whl", "contains a URL"],
    ["https://example.com/pkg-1.0-py3-none-any.whl", "contains a URL"],
    ["git+https://example.com/pkg", "contains a URL"],
    ["./pkg", "is a path"],
    ["/tmp/pkg", "is a path"],
    ["..\\pkg", "is a path"],
    ["pkg-1.0-py3-none-any.whl", "is a path"],
    ["two words", "an invalid version"],
    ["a=1.0", "an invalid version"],
    ["a>=1,", "an invalid version"],
    ["a>=", "an invalid version"],
    ["a[b", "not a requirement"],
    ["a[b c]", "an invalid extra"],
    ["a;", "an empty marker after `;`"],
    ["über", "not a requirement"],
    ["a\n--index-url=x", "an invalid version"],
  ])("%j is refused: %s", (text, reason) => {
    expect(() => normalRequirement(text)).toThrow(expect.objectContaining({ code: "invalid_input" }));
    expect(() => normalRequirement(text)).toThrow(reason);
  });
});

test("a list of requirements has no order and no repetition", () => {
  expect(normalRequirements(["B", "a==1", "b"])).toEqual(normalRequirements(["a == 1", "b"]));
  expect(() => normalRequirements([])).toThrow("No packages were given");
});
