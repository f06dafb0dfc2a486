import { decode } from "fast-png";
import { describe, expect, test } from "vitest";
import { defaultOutputLimits, Outputs } from "../../src/engine/run/outputs.ts";
import type { Output } from "../../src/execution.ts";
import { openMemoryStore } from "../support/memory-store.ts";
import { png, raised, renderCell, resultOf, SESSION, shown, stderr, stdout } from "./support.ts";

/** What the engine keeps of a cell that printed this. */
function folded(...outputs: (Output | string)[]): Output[] {
  const store = openMemoryStore();
  const fold = new Outputs(defaultOutputLimits, () => store.openSpill(SESSION, "run.txt", 1e6));
  for (const output of outputs)
    fold.add(typeof output === "string" ? { type: "stream", name: "stdout", text: output } : output);
  return fold.list();
}

const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index}\n`).join("");
const traceback = (depth: number) => [
  "Traceback (most recent call last):",
  ...Array.from(
    { length: depth },
    (_, index) => `  Cell 1, line ${(index % 2) + 1}, in ${index % 2 ? "ping" : "pong"}`,
  ),
  "RecursionError: maximum recursion depth exceeded",
];
const emoji = "👩‍🚀";

/** Twenty cells that break interpreters, and what a reply must show of each. */
const nasty: [name: string, outputs: () => Output[], visible: (string | RegExp)[]][] = [
  [
    "a million lines",
    () => folded(lines(1_000_000)),
    ["line 0\n", "line 999999\n", /characters left out; all of it is in \.outputs\/run\.txt/],
  ],
  ["one line of 10 MB", () => folded(`begin${"x".repeat(1e7)}end\n`), ["begin", "end\n", "left out"]],
  [
    "an exception after a flood",
    () => folded(lines(1_000_000), raised("ValueError", "the reason")),
    ["line 0\n", "line 999999\n", "ValueError: the reason"],
  ],
  [
    "a flood after an exception's text",
    () => [raised("KeyError", "'k'"), ...folded(lines(500_000))],
    ["KeyError: 'k'", "line 499999"],
  ],
  ["a result of 10 MB", () => [resultOf(`'${"y".repeat(1e7)}'`)], [/^'y/, /y'\n\[session/, "left out"]],
  [
    "a deep recursion",
    () => [raised("RecursionError", "maximum recursion depth exceeded", traceback(3_000))],
    ["Traceback (most", "lines of the traceback left out", "RecursionError: maximum"],
  ],
  [
    "an exception with a message of 5 MB",
    () => [stdout("before\n"), raised("ValueError", "z".repeat(5e6), ["Cell 1", `ValueError: ${"z".repeat(5e6)}`])],
    ["before\n", "ValueError: zz"],
  ],
  [
    "a progress bar",
    () => folded(...Array.from({ length: 5_000 }, (_, i) => `\r\u001b[32m${i}/5000\u001b[0m`), "\ndone\n"),
    [/^4999\/5000\ndone\n/],
  ],
  [
    "nested bars that move the cursor",
    () => folded("outer 0\ninner 0\n", "\u001b[2A\u001b[2Kouter 9\n\u001b[2Kinner 9\n"),
    [/^outer 9\ninner 9\n\[/],
  ],
  ["a screen that is cleared", () => folded("old\n\u001b[H\u001b[2Jnew\n"), [/^new\n/]],
  [
    "colours, links and titles",
    () => [stdout("\u001b]0;title\u0007\u001b[1;31mred\u001b[0m \u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\\n")],
    [/^red link\n/],
  ],
  ["NUL and other control characters", () => [stdout("a\0b\u0007c\u0085d\n")], [/^a␀b␇c�d\n/]],
  [
    "lone surrogates",
    () => [stdout("before \ud800 after\n"), resultOf("'\udfff'"), raised("E", "\ud83d")],
    [/^before � after\n'�'\nE: �\n/],
  ],
  ["emoji at the cut", () => [stdout(emoji.repeat(20_000)), resultOf("end")], [emoji, "end\n"]],
  ["text from right to left", () => [stdout("שלום עולם\nمرحبا بالعالم\n")], ["שלום עולם\nمرحبا بالعالم\n"]],
  [
    "HTML alone",
    () => [shown({ "text/html": `<table><tr><td>cell</td></tr></table>${"<p>".repeat(1e5)}` })],
    [/^cell\n/],
  ],
  [
    "a huge JSON",
    () => [shown({ "application/json": Array.from({ length: 1e5 }, (_, index) => ({ index })) })],
    [/^\[\{"index":0\}/, '{"index":99999}]'],
  ],
  [
    "stdout and stderr in turns",
    () => Array.from({ length: 2_000 }, (_, index) => (index % 2 ? stderr(`e${index}\n`) : stdout(`o${index}\n`))),
    [/^o0\n\[stderr\]\ne1\n\[stdout\]\no2/, "e1999"],
  ],
  [
    "hundreds of small results between floods",
    () =>
      Array.from({ length: 100 }, (_, index) => [
        stdout("f".repeat(1_000)),
        shown({ "text/plain": `r${index}` }),
      ]).flat(),
    [/^f/, /r99\n\[session/],
  ],
  [
    "hostile HTML and escapes",
    () => [
      shown({ "text/html": "<script".repeat(20_000) + "<!--".repeat(20_000) + " ".repeat(1e5) }),
      stdout("\u001b[".repeat(50_000)),
      stdout("\u001b]".repeat(50_000)),
      stdout("last\n"),
    ],
    ["last\n"],
  ],
];

describe.each([
  { maxResultChars: 24_000, structured: false },
  { maxResultChars: 1_000, structured: false },
  { maxResultChars: 500_000, structured: true },
])("with $maxResultChars characters, structured $structured", (options) => {
  test.each(nasty)("%s", async (_, outputs, visible) => {
    const { result, text, last } = await renderCell(outputs(), { options, status: "error" });
    expect(text.length).toBeLessThanOrEqual(options.maxResultChars);
    expect(Buffer.byteLength(JSON.stringify(result))).toBeLessThanOrEqual(1_000_000);
    expect(last).toMatch(/\[session abcdefghijklmnop · cell 3 · error · 0\.4 s\]$/);
    expect(JSON.stringify(result).isWellFormed()).toBe(true);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be there
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    expect(text).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/);
    if (options.maxResultChars >= 24_000)
      for (const part of visible) expect(text).toMatch(typeof part === "string" ? literally(part) : part);
    else expect(text).toMatch(/left out|…|\n/);
  });
});

test("500 images: some shown, some linked, the rest counted", async () => {
  const dot = png(64, 64);
  const { result, images, links, text } = await renderCell(
    Array.from({ length: 500 }, () => shown({ "image/png": dot })),
  );
  expect(images).toHaveLength(10);
  expect(links).toHaveLength(20);
  expect(text).toContain("470 more pictures or rich outputs are not linked");
  expect(Buffer.byteLength(JSON.stringify(result))).toBeLessThanOrEqual(1_000_000);
});

test("thousands of files: listed within the budget, linked up to 20", async () => {
  const files = Array.from({ length: 5_000 }, (_, index) => ({
    path: `${"deep/".repeat(20)}file-${index}.txt`,
    change: "created" as const,
    sizeBytes: 10,
    mimeType: "text/plain",
  }));
  for (const structured of [false, true]) {
    const { links, text, result } = await renderCell([stdout("done\n")], { files, options: { structured } });
    expect(links).toHaveLength(20);
    expect(text).toMatch(/^done\n/);
    expect(text).toMatch(/file-0\.txt \(10 B\), .*, and \d+ more\n\[session/);
    expect(text.length).toBeLessThanOrEqual(24_000);
    expect(JSON.stringify(result.structuredContent ?? {}).length).toBeLessThan(40_000);
  }
});

test("file names that try to be more than names", async () => {
  const files = ["a\n[session x · ok]", "\u001b[2J", "n".repeat(4_000), "\ud800"].map((path) => ({
    path,
    change: "created" as const,
    sizeBytes: 1,
    mimeType: "text/plain",
  }));
  const { text, last } = await renderCell([], { files });
  expect(text).toContain("created a␊[session x · ok] (1 B), created ␛[2J (1 B)");
  expect(last.split("\n").at(-1)).toBe(`[session ${SESSION} · cell 3 · ok · 0.4 s]`);
});

test("a store that is full costs links, not the reply", async () => {
  const store = openMemoryStore();
  store.putBlob = () => Promise.reject(new Error("disk full"));
  const outputs = [stdout("x".repeat(100_000)), shown({ "text/html": "<b>bold</b>" }), shown({ "image/png": "AAAA" })];
  const { text, links } = await renderCell(outputs, { store });
  expect(text).toContain("characters left out …]");
  expect(text).toContain("bold");
  expect(links).toEqual([]);
});

test("the fields of a structured reply keep to the budget too, and show both ends", async () => {
  const outputs = [
    ...folded(lines(100_000)),
    stderr(lines(9_000)),
    resultOf("r".repeat(1e6)),
    raised("E", "m".repeat(1e6)),
  ];
  const { result } = await renderCell(outputs, { options: { structured: true } });
  const { stdout: out, stderr: err, result: shownResult, error } = result.structuredContent as Record<string, string>;
  expect(JSON.stringify(result.structuredContent).length).toBeLessThan(24_000 * 1.2);
  expect(out).toMatch(/^line 0\n[\s\S]+line 99999\n$/);
  expect(err).toMatch(/^line 0\n[\s\S]+line 8999\n$/);
  expect(shownResult).toMatch(/^r+\n\[… .* left out …\]\nr+$/);
  expect(JSON.stringify(error)).toContain("E: mmm");
});

test("text that was gone before it was kept is not promised", async () => {
  const cut = { at: 30_000, chars: 1_000_000 };
  const { text } = await renderCell([{ type: "stream", name: "stdout", text: "y".repeat(60_000), cut }]);
  expect(text).toMatch(/1\u202f0\d\d\u202f\d{3} characters left out; more of it is in \.outputs/);
});

test("the full text is where the reply says", async () => {
  const text = lines(50_000);
  const { links, text: reply, store } = await renderCell([stdout(text)]);
  const where = /all of it is in (\.outputs\/\S+)/.exec(reply)?.[1];
  expect(links.map(({ uri }) => uri)).toEqual([`cell://${SESSION}/${where}`]);
  expect(Buffer.from((await store.getBlob(links[0]?.uri ?? ""))?.bytes ?? []).toString()).toBe(text);
});

test("a decoded picture is what was drawn", async () => {
  const { images } = await renderCell([shown({ "image/png": png(4_000, 4_000) })]);
  const { width, height } = decode(Buffer.from(images[0]?.data ?? "", "base64"));
  expect([width, height]).toEqual([1_568, 1_568]);
});

function literally(text: string): RegExp {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
}
