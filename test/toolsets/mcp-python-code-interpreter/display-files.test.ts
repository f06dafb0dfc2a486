import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { MimeBundle, Output } from "../../../src/execution.ts";
import { saveDisplays } from "../../../src/toolsets/mcp-python-code-interpreter/display-files.ts";
import type { GuestServices } from "../../../src/toolsets/toolset.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";

const figure = { "application/vnd.plotly.v1+json": { data: [] }, "text/html": "<p>page</p>", "text/plain": "a figure" };

function start(draw: GuestServices["draw"] = async () => ({ failure: "nothing can" })) {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-displays-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const shown = (data: MimeBundle): Output => ({ type: "display", data });
  return {
    folder,
    save: (...outputs: (Output | MimeBundle)[]) =>
      saveDisplays(
        outputs.map((output) => ("type" in output ? (output as Output) : shown(output))),
        openLocalWorkspace(folder),
        { draw, now: () => 1_700_000_000_000 },
      ),
    read: (name: string) => readFileSync(join(folder, name), "utf8"),
  };
}

const png = (text: string) => ({ "image/png": Buffer.from(text).toString("base64"), "text/plain": "<picture>" });

test("pictures of one moment become files of their own, in order, and overwrite nothing", async () => {
  const { save, read, folder } = start();
  writeFileSync(join(folder, "inline_1700000000000.png"), "mine");
  const printed: Output = { type: "stream", name: "stdout", text: "x" };
  expect(await save(printed, png("one"), { "text/plain": "no picture" }, png("two"))).toEqual([
    { output: 1, path: "inline_1700000000000-2.png" },
    { output: 3, path: "inline_1700000000000-3.png" },
  ]);
  expect(read("inline_1700000000000.png")).toBe("mine");
  expect(read("inline_1700000000000-2.png")).toBe("one");
  expect(read("inline_1700000000000-3.png")).toBe("two");
});

test("a value that is a picture is saved, an SVG as text, and a picture in several formats once", async () => {
  const { save, read } = start();
  const svg = { type: "result", data: { "image/svg+xml": ["<svg>", "</svg>"] } } satisfies Output;
  const saved = await save(svg, { ...png("both"), "image/jpeg": "AAAA" });
  expect(saved.map(({ path }) => path)).toEqual(["inline_1700000000000.svg", "inline_1700000000000.png"]);
  expect(read("inline_1700000000000.svg")).toBe("<svg></svg>");
});

test("a plotly figure is drawn, and is a page where it cannot be", async () => {
  const drawing = start(async () => Buffer.from("drawn"));
  expect(await drawing.save(figure)).toEqual([{ output: 0, path: "plotly_1700000000000.png" }]);
  expect(drawing.read("plotly_1700000000000.png")).toBe("drawn");
  const helpless = start();
  const [saved] = await helpless.save(figure);
  expect(saved).toEqual({ output: 0, path: "plotly_1700000000000.html", notDrawn: "nothing can" });
  expect(helpless.read("plotly_1700000000000.html")).toBe("<p>page</p>");
});
