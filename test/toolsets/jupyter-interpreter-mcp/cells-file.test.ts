import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CellsFile, splitCells } from "../../../src/toolsets/jupyter-interpreter-mcp/cells-file.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";

function world() {
  const folder = mkdtempSync(join(tmpdir(), "cw-cells-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "history.txt");
  return { file, open: () => new CellsFile({ workspace: openLocalWorkspace(folder), path: "history.txt" }) };
}

const nothing = async () => [];

test("cells are added one by one, as others write them", async () => {
  const { file, open } = world();
  const cells = open();
  await cells.add("a = 1", nothing);
  await cells.add("if a:\n    b = 2", nothing);
  expect(readFileSync(file, "utf8")).toBe("\na = 1\n\nif a:\n    b = 2\n");
});

test("after a restart it goes on where it was, and reading changes nothing", async () => {
  const { file, open } = world();
  const known = ["a = 1\n\nb = 2", "c = 3"];
  for (const code of known) await open().add(code, async () => known.slice(0, known.indexOf(code)));
  const before = readFileSync(file, "utf8");
  expect(await open().read(known)).toEqual(known);
  expect(readFileSync(file, "utf8")).toBe(before);
  await open().add("d = 4", async () => known);
  expect(readFileSync(file, "utf8")).toBe(`${before}\nd = 4\n`);
});

test("cells written by another program count", async () => {
  const { file, open } = world();
  writeFileSync(file, "\nx = 1\n\ny = 2\n");
  expect(await open().read([])).toEqual(["x = 1", "y = 2"]);
  expect(await open().read(["something = 'else'"])).toEqual(["x = 1", "y = 2"]);
});

test("without a file, our own history counts", async () => {
  expect(await world().open().read(["a"])).toEqual(["a"]);
});

test.each([
  ["", []],
  ["\n\n\n", []],
  ["\na = 1\n\nb = 2\n", ["a = 1", "b = 2"]],
  ["\ndef f():\n    x = 1\n\n    return x\n\nf()\n", ["def f():\n    x = 1\n\n    return x", "f()"]],
  ["\ntry:\n    x\n\nexcept NameError:\n    pass\n", ["try:\n    x\n\nexcept NameError:\n    pass"]],
  ['\ntext = """one\n\ntwo"""\n\nb = 2\n', ['text = """one\n\ntwo"""', "b = 2"]],
  ["\r\na = 1\r\n\r\nb = [\r\n\r\n]\r\n", ["a = 1", "b = [\n\n]"]],
])("cells in %j", (text, cells) => {
  expect(splitCells(text)).toEqual(cells);
});
