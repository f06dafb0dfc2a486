import { describe, expect, test } from "vitest";
import { resolveCarriageReturns } from "../../../src/engine/run/carriage-returns.ts";
import { defaultOutputLimits, Outputs } from "../../../src/engine/run/outputs.ts";
import type { ExecutionEvent, Output } from "../../../src/execution.ts";

const print = (text: string, name: "stdout" | "stderr" = "stdout"): ExecutionEvent => ({ type: "stream", name, text });
const display = (text: string, displayId?: string): ExecutionEvent => ({
  type: "display",
  data: { "text/plain": text },
  displayId,
});

function fold(events: ExecutionEvent[], limits = defaultOutputLimits): Output[] {
  const outputs = new Outputs(limits);
  for (const event of events) outputs.add(event);
  return outputs.list();
}

describe("what a cell showed", () => {
  test("joins text of one stream and keeps the order between streams", () => {
    expect(fold([print("a"), print("b\n"), print("oops\n", "stderr"), print("c")])).toEqual([
      { type: "stream", name: "stdout", text: "ab\n" },
      { type: "stream", name: "stderr", text: "oops\n" },
      { type: "stream", name: "stdout", text: "c" },
    ]);
  });

  test("a progress bar leaves its last state, also when it comes in pieces", () => {
    expect(fold(["\r 0%", "\r 50%", "\r", "100%", "\nend"].map((text) => print(text)))).toEqual([
      { type: "stream", name: "stdout", text: "100%\nend" },
    ]);
  });

  test("a carriage return overwrites and does not erase", () => {
    expect(resolveCarriageReturns("abcdef\rxyz\nnext\r\nlast\r")).toBe("xyzdef\nnext\nlast\r");
  });

  test("a line that is cleared or coloured by escape codes is replaced whole", () => {
    expect(resolveCarriageReturns("Epoch 1 loss 0.123456\r\u001b[KEpoch 2")).toBe("\u001b[KEpoch 2");
  });

  test("a cut never parts the two halves of a character", () => {
    const [only] = fold([print("🙂".repeat(5_000))], { ...defaultOutputLimits, sideChars: 1001 });
    if (only?.type !== "stream") throw new Error("expected a stream");
    expect(only.text.isWellFormed()).toBe(true);
    expect(only.text.slice(0, only.cut?.at).isWellFormed()).toBe(true);
  });

  test("an update changes the display in its place", () => {
    const shown = fold([
      display("old", "bar"),
      print("between"),
      { type: "update", displayId: "bar", data: { "text/plain": "new" } },
    ]);
    expect(shown[0]).toMatchObject({ data: { "text/plain": "new" } });
    expect(shown).toHaveLength(2);
  });

  test("an update of a display that is not here is shown as a new one", () => {
    expect(fold([{ type: "update", displayId: "gone", data: { "text/plain": "new" } }])).toMatchObject([
      { type: "display" },
    ]);
  });

  test("clear removes what was shown, at once or with the next output", () => {
    expect(fold([print("old"), { type: "clear", wait: false }])).toEqual([]);
    expect(fold([print("old"), { type: "clear", wait: true }])).toHaveLength(1);
    expect(fold([print("old"), { type: "clear", wait: true }, print("new")])).toEqual([
      { type: "stream", name: "stdout", text: "new" },
    ]);
  });

  test("a flood keeps its beginning and its end and says how much is missing", () => {
    const limits = { ...defaultOutputLimits, sideChars: 1000 };
    const lines = Array.from({ length: 10_000 }, (_, i) => `line ${i}\n`);
    const [only, ...others] = fold(
      lines.map((line) => print(line)),
      limits,
    );
    expect(others).toEqual([]);
    if (only?.type !== "stream" || !only.cut) throw new Error("expected one stream with a cut");
    expect(only.text.startsWith("line 0\nline 1\n")).toBe(true);
    expect(only.text.endsWith("line 9999\n")).toBe(true);
    expect(only.text.length + only.cut.chars).toBe(lines.join("").length);
    expect(lines.join("").slice(0, only.cut.at)).toBe(only.text.slice(0, only.cut.at));
  });

  test("one huge text is cut the same way", () => {
    const [only] = fold([print("x".repeat(5_000_000))], { ...defaultOutputLimits, sideChars: 1000 });
    expect(only).toMatchObject({ cut: { at: 1000, chars: 4_998_000 } });
  });

  test("a million alternating pieces stay bounded", () => {
    const outputs = new Outputs({ ...defaultOutputLimits, sideChars: 1000 });
    for (let i = 0; i < 1_000_000; i += 1) outputs.add(print("a", i % 2 ? "stdout" : "stderr"));
    expect(outputs.list().length).toBeLessThan(100);
  });

  test("a display between floods is not dropped with the text around it", () => {
    const limits = { ...defaultOutputLimits, sideChars: 100 };
    const shown = fold([print("a".repeat(500)), display("kept"), print("b".repeat(500))], limits);
    expect(shown.filter((output) => output.type === "display")).toHaveLength(1);
  });

  test("more displays than are kept are counted", () => {
    const outputs = new Outputs({ ...defaultOutputLimits, displays: 3 });
    for (let i = 0; i < 10; i += 1) outputs.add(display(String(i)));
    expect(outputs.list()).toHaveLength(3);
    expect(outputs.droppedDisplays).toBe(7);
  });

  test("floods of errors and of updates stay bounded too", () => {
    const outputs = new Outputs({ ...defaultOutputLimits, displays: 3, displayChars: 1000 });
    for (let i = 0; i < 100; i += 1) outputs.add({ type: "error", name: "E", message: "m", traceback: ["x"] });
    expect(outputs.list()).toHaveLength(3);
    const updated = new Outputs({ ...defaultOutputLimits, displayChars: 1000 });
    updated.add(display("small", "bar"));
    updated.add({ type: "update", displayId: "bar", data: { "text/plain": "x".repeat(2000) } });
    expect(updated.list()).toMatchObject([{ data: { "text/plain": "small" } }]);
  });

  test("the spill holds all of the text once something is cut", async () => {
    let spilled = "";
    const outputs = new Outputs({ ...defaultOutputLimits, sideChars: 10 }, () => ({
      uri: "cell://s/.outputs/x.txt",
      write: (text) => {
        spilled += text;
      },
      close: async () => {},
    }));
    const pieces = ["0123456789", "abc", "defghijklm", "nopq"];
    for (const piece of pieces) outputs.add(print(piece));
    expect(spilled).toBe(pieces.join(""));
    expect(outputs.list()[0]).toMatchObject({ cut: { full: "cell://s/.outputs/x.txt" } });
  });

  test("a lone surrogate becomes a character that can be sent", () => {
    expect(fold([print("a\ud800b")])[0]).toMatchObject({ text: "a\ufffdb" });
  });
});
