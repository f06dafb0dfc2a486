import { describe, expect, test } from "vitest";
import { CellwrightError } from "../../src/errors.ts";
import { createLog } from "../../src/log.ts";
import { defaultOptions } from "../../src/options/options.ts";
import { render, renderError } from "../../src/render/reply.ts";
import { openMemoryStore } from "../support/memory-store.ts";
import { png, raised, renderCell, resultOf, SESSION, shown, stderr, stdout } from "./support.ts";

describe("a cell's reply reads", () => {
  test("what was printed, the result, and how it ended", async () => {
    const { result } = await renderCell([stdout("hello\nworld"), resultOf("42")]);
    expect(result).toEqual({
      content: [{ type: "text", text: `hello\nworld\n42\n[session ${SESSION} · cell 3 · ok · 0.4 s]` }],
      _meta: {
        "cellwright/execution": {
          session_id: SESSION,
          execution_id: "execution-id",
          status: "ok",
          execution_count: 3,
          duration_ms: 432,
        },
      },
    });
  });

  test("no output", async () => {
    const { text } = await renderCell([]);
    expect(text).toBe(`[session ${SESSION} · cell 3 · ok · 0.4 s · no output]`);
  });

  test("a session's first cell says where it runs", async () => {
    const { text } = await renderCell([], { executionCount: 1, kernel: "Python 3.14 (Pyodide)" });
    expect(text).toBe(`[session ${SESSION} · cell 1 · ok · 0.4 s · no output · Python 3.14 (Pyodide)]`);
  });

  test("stderr apart when both appear, plain when alone", async () => {
    const both = await renderCell([stdout("one\n"), stderr("careful\n"), stdout("two\n")]);
    expect(both.text).toBe(`one\n[stderr]\ncareful\n[stdout]\ntwo\n[session ${SESSION} · cell 3 · ok · 0.4 s]`);
    const alone = await renderCell([stderr("careful\n"), resultOf("1")]);
    expect(alone.text).toBe(`careful\n1\n[session ${SESSION} · cell 3 · ok · 0.4 s]`);
  });

  test("an exception after output is not an error of the call", async () => {
    const traceback = ["\u001b[31mTraceback\u001b[0m (most recent call last):", "  Cell 3, line 1", "ValueError: bad"];
    const { text, result } = await renderCell([stdout("so far\n"), raised("ValueError", "bad", traceback)], {
      status: "error",
    });
    expect(result.isError).toBeUndefined();
    expect(text).toBe(
      `so far\nTraceback (most recent call last):\n  Cell 3, line 1\nValueError: bad\n[session ${SESSION} · cell 3 · error · 0.4 s]`,
    );
  });

  test("an exception whose traceback does not name it", async () => {
    const { text } = await renderCell([raised("ValueError", "bad", [])], { status: "error" });
    expect(text).toMatch(/^ValueError: bad\n\[session/);
  });

  test("a cell that still runs, and one that waits", async () => {
    const running = await renderCell([stdout("10 %\n")], {
      status: "running",
      executionCount: null,
      durationMs: 45_012,
    });
    expect(running.text).toBe(
      `10 %\n[session ${SESSION} · execution execution-id · running · 45 s · call wait with this session_id for the rest, or interrupt to stop it]`,
    );
    const queued = await renderCell([], { status: "running", executionCount: null, queued: true });
    expect(queued.text).toContain("· queued behind another cell · 0.4 s ·");
  });

  test("notices, files and their links before the last line", async () => {
    const { result } = await renderCell([stdout("done\n")], {
      status: "timeout",
      durationMs: 600_000,
      notices: ["The cell ran longer than 600 s and was stopped; variables are kept."],
      files: [
        { path: "out/größe 1.csv", change: "created", sizeBytes: 1_234, mimeType: "text/csv" },
        { path: "old.txt", change: "deleted", sizeBytes: 0, mimeType: "text/plain" },
        { path: "data.bin", change: "modified", sizeBytes: 12, mimeType: "application/octet-stream" },
      ],
    });
    expect(result.content).toEqual([
      { type: "text", text: "done\n" },
      {
        type: "resource_link",
        uri: `cell://${SESSION}/out/gr%C3%B6%C3%9Fe%201.csv`,
        name: "out/größe 1.csv",
        mimeType: "text/csv",
        size: 1_234,
      },
      {
        type: "resource_link",
        uri: `cell://${SESSION}/data.bin`,
        name: "data.bin",
        mimeType: "application/octet-stream",
        size: 12,
      },
      {
        type: "text",
        text: `The cell ran longer than 600 s and was stopped; variables are kept.\nFiles: created out/größe 1.csv (1.2 kB), deleted old.txt, modified data.bin (12 B)\n[session ${SESSION} · cell 3 · timeout · 10 min 0 s]`,
      },
    ]);
  });

  test("late output of earlier cells first, marked", async () => {
    const late = [{ executionId: "e", executionCount: 1, outputs: [stdout("tick\n")] }];
    const { text } = await renderCell([stdout("mine\n")], { late });
    expect(text).toBe(
      `[late output of cell 1]\ntick\n[end of late output]\nmine\n[session ${SESSION} · cell 3 · ok · 0.4 s]`,
    );
  });

  test("text, images and links in the order they happened", async () => {
    const dot = png(30, 30);
    const { shape, text } = await renderCell([
      stdout("before\n"),
      shown({ "image/png": dot, "text/plain": "<Figure size 640x480 with 1 Axes>" }),
      stdout("between\n"),
      shown({ "text/html": "<b>bold</b>", "text/plain": "bold" }),
      stdout("after\n"),
    ]);
    expect(shape).toEqual(["text", "image", "text", "resource_link", "text"]);
    expect(text).toBe(`before\nbetween\nbold\nafter\n[session ${SESSION} · cell 3 · ok · 0.4 s]`);
  });
});

describe("forms of one output", () => {
  test.each([
    ["plain text beats all", { "text/plain": "x²", "text/markdown": "**x²**", "text/html": "<p>x²</p>" }, "x²\n"],
    ["a formula, as code and as it is written", { "text/plain": "x**2", "text/latex": "$x^2$" }, "x**2\n$x^2$\n"],
    [
      "markdown, where the plain form says nothing",
      { "text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "# Title" },
      "# Title\n",
    ],
    ["latex alone", { "text/latex": "$x$" }, "$x$\n"],
    ["JSON alone, compact", { "application/json": { a: [1, 2] } }, '{"a":[1,2]}\n'],
    ["lists of lines", { "text/plain": ["a\n", "b"] }, "a\nb\n"],
    ["a nameless object, where there is nothing else", { "text/plain": "<object at 0x7f>" }, "<object at 0x7f>\n"],
    [
      "the words of HTML alone",
      { "text/html": "<style>b{}</style><p>Hello &amp; <b>bye</b></p><script>x</script>" },
      "Hello & bye\n",
    ],
    [
      "widgets are their plain text",
      { "application/vnd.jupyter.widget-view+json": { id: 1 }, "text/plain": "Slider(1)" },
      "Slider(1)\n",
    ],
  ])("%s", async (_, data, expected) => {
    const { text } = await renderCell([shown(data)]);
    expect(text.slice(0, text.lastIndexOf("["))).toBe(expected);
  });

  test.each([
    ["text/html", "<b>x</b>", "<b>x</b>"],
    ["image/svg+xml", "<svg/>", "<svg/>"],
    ["application/pdf", Buffer.from("%PDF").toString("base64"), "%PDF"],
    ["application/vnd.plotly.v1+json", { data: [] }, '{"data":[]}'],
    ["audio/wav", Buffer.from("RIFF").toString("base64"), "RIFF"],
  ])("%s is linked, and is what the link gives", async (mimeType, value, expected) => {
    const { links, text, store } = await renderCell([shown({ [mimeType]: value, "text/plain": "plain" })]);
    expect(text).toMatch(/^plain\n/);
    expect(links).toEqual([
      {
        type: "resource_link",
        uri: expect.stringContaining("/.outputs/"),
        name: expect.any(String),
        mimeType,
        size: expected.length,
      },
    ]);
    const blob = await store.getBlob(links[0]?.uri ?? "");
    expect(Buffer.from(blob?.bytes ?? []).toString()).toBe(expected);
  });
});

describe("structured", () => {
  const options = { structured: true };

  test("tells the whole story as fields", async () => {
    const { result } = await renderCell(
      [stdout("out\n"), stderr("err\n"), resultOf("7"), raised("ValueError", "bad")],
      {
        options,
        status: "error",
        notices: ["Note."],
        files: [{ path: "a", change: "created", sizeBytes: 1, mimeType: "text/plain" }],
      },
    );
    expect(result.structuredContent).toEqual({
      session_id: SESSION,
      execution_id: "execution-id",
      status: "error",
      execution_count: 3,
      duration_ms: 432,
      stdout: "out\n",
      stderr: "err\n",
      result: "7",
      value: null,
      error: { name: "ValueError", message: "bad", traceback: "ValueError: bad\n" },
      files: [{ path: "a", change: "created", size_bytes: 1, mime_type: "text/plain" }],
      notices: ["Note."],
      links: [`cell://${SESSION}/a`],
    });
  });

  test("is absent unless requested", async () => {
    expect((await renderCell([])).result).not.toHaveProperty("structuredContent");
  });

  test("text replies give their data, or their text", async () => {
    const context = { options: { ...defaultOptions(), structured: true }, store: openMemoryStore() };
    const data = await render({ type: "text", text: "a table", data: { rows: [1] } }, context);
    expect(data).toEqual({ content: [{ type: "text", text: "a table" }], structuredContent: { rows: [1] } });
    expect((await render({ type: "text", text: "words" }, context)).structuredContent).toEqual({ text: "words" });
  });
});

describe("errors", () => {
  test("a known failure says what happened, what to do, and its code", () => {
    const lines: string[] = [];
    const log = createLog("debug", (line) => lines.push(line));
    const result = renderError(new CellwrightError("session_limit", "All 3 sessions are running."), log);
    expect(result).toEqual({
      isError: true,
      content: [
        {
          type: "text",
          text: "All 3 sessions are running.\nClose a session with close_session first.\n[error: session_limit]",
        },
      ],
      _meta: { "cellwright/error": { code: "session_limit", retry: false } },
    });
    expect(lines).toEqual([]);
  });

  test("a bug is reported as one, with its stack in the log only", () => {
    const lines: string[] = [];
    const result = renderError(
      new Error("secret detail"),
      createLog("error", (line) => lines.push(line)),
    );
    expect(JSON.stringify(result)).not.toContain("secret detail");
    expect(JSON.stringify(result)).toContain("[error: internal]");
    expect(lines.join("")).toContain("secret detail");
  });

  test("a message cannot flood or drive a terminal", () => {
    const result = renderError(
      new CellwrightError("invalid_input", `\u001b[2J${"x".repeat(1e6)}`),
      createLog("silent"),
    );
    expect(JSON.stringify(result).length).toBeLessThan(5_000);
    expect(JSON.stringify(result)).not.toContain("\\u001b");
  });
});
