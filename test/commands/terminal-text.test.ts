import { describe, expect, test } from "vitest";
import { TerminalText } from "../../src/commands/terminal-text.ts";

const ESC = "\u001b";
const shown = (...pieces: string[]) => {
  const text = new TerminalText();
  return pieces.map((piece) => text.push(piece)).join("");
};

describe("text of user code on a terminal", () => {
  test.each([
    ["words", "Grüße 👋\tand\nlines\r\n"],
    ["colours", `${ESC}[1;31mred${ESC}[0m ${ESC}[38:2:1:2:3mmore${ESC}[m`],
    ["a progress bar", `\r 50%|█████     |${ESC}[K\r100%|██████████|\b`],
  ])("keeps %s", (_, text) => {
    expect(shown(text)).toBe(text);
    expect(shown(...text)).toBe(text);
  });

  test.each([
    ["a title", `${ESC}]0;owned\u0007`],
    ["a title with ESC \\", `${ESC}]2;owned${ESC}\\`],
    ["a link", `${ESC}]8;;http://evil.example${ESC}\\`],
    ["the clipboard", `${ESC}]52;c;b3duZWQ=\u0007`],
    ["the cursor", `${ESC}[2A`],
    ["the whole screen", `${ESC}[2J${ESC}[H`],
    ["another screen", `${ESC}[?1049h`],
    ["a question that the terminal answers by typing", `${ESC}[6n${ESC}[c${ESC}[21t`],
    ["data for the terminal", `${ESC}P$q"p${ESC}\\`],
    ["an application's command", `${ESC}_Gowned${ESC}\\`],
    ["a reset", `${ESC}c`],
    ["another character set", `${ESC}(0`],
    ["the same in one character", "\u009b2J\u009d0;x\u0090"],
    ["bells and other control characters", "\u0007\u0000\u000e\u007f"],
    ["a sequence within a sequence", `${ESC}[3${ESC}[2J`],
    ["a colour that is none", `${ESC}[>4m${ESC}[?4m`],
  ])("leaves out %s", (_, text) => {
    const kept = (out: string) => out.replaceAll(/[^a-z]/g, "");
    const whole = shown(`before${text}after`);
    expect(whole).not.toContain(ESC);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
    expect(whole).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    expect(kept(whole).startsWith("before") && kept(whole).endsWith("after")).toBe(true);
    expect(shown(...`before${text}after`)).toBe(whole);
  });

  test("is not swallowed by a sequence that never ends", () => {
    expect(shown(`${ESC}]0;`, "x".repeat(10), "\nnext")).toBe("\nnext");
    expect(shown(`${ESC}[${"1;".repeat(100)}mshown`)).toContain("shown");
  });
});
