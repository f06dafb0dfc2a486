import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cutText, shareOut } from "../../src/render/text/cut.ts";
import { plainText, visible } from "../../src/render/text/terminal.ts";

describe("a cut text", () => {
  const between = (text: string) => fc.nat(text.length).map((at) => (text.slice(0, at).isWellFormed() ? at : at - 1));
  const gaps = (text: string) =>
    fc
      .array(fc.record({ at: between(text), chars: fc.integer({ min: 1, max: 1e6 }) }), { maxLength: 3 })
      .map((list) => list.sort((one, other) => one.at - other.at));
  const parts = fc
    .string({ unit: "grapheme", maxLength: 3_000 })
    .chain((text) => fc.record({ text: fc.constant(text), gaps: gaps(text), max: fc.integer({ min: 0, max: 2_000 }) }));

  test("is never longer than allowed, nor has half characters", () => {
    fc.assert(
      fc.property(parts, fc.constantFrom(0.3, 0.5), ({ text, gaps: missing, max }, headShare) => {
        const cut = cutText(text, max, { gaps: missing, headShare, where: "all of it is in .outputs/x.txt" });
        expect(cut.length).toBeLessThanOrEqual(max);
        expect(cut.isWellFormed()).toBe(true);
      }),
    );
  });

  test("counts exactly what is missing", () => {
    fc.assert(
      fc.property(parts, ({ text, gaps: missing }) => {
        const cut = cutText(text, 300, { gaps: missing });
        const left = [...cut.matchAll(/\n\[… ([\d\u202f]+) characters left out …\]\n/g)];
        const counted = left.reduce((sum, [, count]) => sum + Number(count?.replaceAll("\u202f", "")), 0);
        const marks = left.reduce((sum, [mark]) => sum + mark.length, 0);
        const wanted = text.length + missing.reduce((sum, { chars }) => sum + chars, 0);
        if (left.length > 0) expect(cut.length - marks + counted).toBe(wanted);
      }),
    );
  });

  test("ends and begins at whole lines where they are near", () => {
    const text = Array.from({ length: 500 }, (_, index) => `line ${index}\n`).join("");
    expect(cutText(text, 200)).toMatch(
      /^line 0\n(line \d+\n)*line \d+\n\[… \d\u202f\d+ characters left out …\]\n(line \d+\n)+$/,
    );
  });

  test("stays as it is when it fits", () => {
    expect(cutText("short", 5)).toBe("short");
    expect(cutText("ab", 100, { gaps: [{ at: 1, chars: 12_345 }] })).toBe(
      "a\n[… 12\u202f345 characters left out …]\nb",
    );
  });
});

test.each([
  [[1, 2, 3], 10, [1, 2, 3]],
  [[100, 2, 100], 22, [10, 2, 10]],
  [[100, 30, 100], 90, [30, 30, 30]],
  [[5, 5], 0, [0, 0]],
  [[], 10, []],
])("of %j, %i are shared out as %j", (needs, total, shares) => {
  expect(shareOut(needs, total)).toEqual(shares);
});

describe("what a terminal shows", () => {
  test.each([
    ["colours", "\u001b[1;31mred\u001b[0m", "red"],
    ["256 colours and true colours", "\u001b[38;5;12mx\u001b[48:2::1:2:3my\u001b[m", "xy"],
    ["a bar", "10%\r50%\r100%\n", "100%\n"],
    ["a shorter line over a longer", "long text\rhi\n", "hing text\n"],
    ["a line that is erased", "long text\r\u001b[Khi\n", "hi\n"],
    ["a whole line that is erased", "long text\u001b[2K\rhi\n", "hi\n"],
    ["backspaces", "abc\b\bX\n", "aXc\n"],
    ["lines below each other, updated", "a 1\nb 1\n\u001b[2Aa 2\nb 2\n", "a 2\nb 2\n"],
    ["a cleared screen", "old\n\u001b[2J\u001b[Hnew\n", "new\n"],
    ["a column", "ab\u001b[10Gc", "ab       c"],
    ["Windows line ends", "a\r\nb\r\n", "a\nb\n"],
    ["links and titles", "\u001b]8;;http://a\u0007text\u001b]8;;\u0007\u001b]0;t\u001b\\!", "text!"],
    ["a far jump", "\u001b[999999999C.\u001b[999999999B.", `${" ".repeat(1_000)}..`],
    ["character sets", "\u001b(B\u001b=x", "x"],
  ])("of %s", (_, text, shown) => {
    expect(plainText(text)).toBe(shown);
  });

  test("is text without control characters, whatever comes", () => {
    const codes = fc.constantFrom(
      "\u001b",
      "[",
      "]",
      "2",
      ";",
      "J",
      "K",
      "A",
      "H",
      "m",
      "\r",
      "\n",
      "\b",
      "\0",
      "x",
      "é",
      "\ud800",
      "\u009b",
    );
    fc.assert(
      fc.property(fc.array(codes, { maxLength: 200 }), (letters) => {
        const shown = plainText(letters.join(""));
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be there
        expect(shown).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
        expect(shown.isWellFormed()).toBe(true);
      }),
    );
  });

  test("comes to an end with hostile text, too", () => {
    for (const piece of [
      "\u001b[",
      "\u001b]",
      "\u001b[1;",
      "\r",
      "\b",
      "x\r",
      "\u001b[A",
      "\u001bP",
      "\u001b[999B",
      "\u001b[999Cx\n",
    ]) {
      plainText(piece.repeat(Math.floor(128_000 / piece.length)));
    }
  });

  test("control characters are visible", () => {
    expect(visible("a\0\u001b\u007f\u0080\tb\r\n")).toBe("a␀␛␡�\tb\n");
  });
});
