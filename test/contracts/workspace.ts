import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { ago } from "../support/ago.ts";

export interface OpenedWorkspace {
  workspace: Workspace;
  close(): Promise<void>;
}

const maxBytes = 1_000_000;

/** Paths that lead outside, depending on how they are read. `up` is a file beside the workspace. */
export const hostilePaths = [
  "../up",
  "..",
  "a/../../up",
  "a/..",
  "./../up",
  "/etc/passwd",
  "//etc/passwd",
  "/",
  "%2e%2e/up",
  "%2E%2E%2Fup",
  "a/%2e./..%2fup",
  "%252e%252e/up",
  "..%5cup",
  "..\\up",
  "a\\b",
  "C:\\Windows\\win.ini",
  "up\0",
  "a/\0/up",
];

/** The suite that every workspace passes. `open` gives an empty one. */
export function testWorkspace({ name, open }: { name: string; open: () => Promise<OpenedWorkspace> }): void {
  describe(`${name}`, () => {
    let workspace: Workspace;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ workspace, close } = await open());
    });
    afterEach(() => close());

    const write = (path: string, text: string) => workspace.write(path, Buffer.from(text));
    const read = async (path: string) => Buffer.from((await workspace.read(path, { maxBytes })).bytes).toString();
    const paths = async (path = ".", options = {}) =>
      (await workspace.list(path, options)).entries.map((entry) => entry.path);

    test("reads what was written, with its type", async () => {
      expect(await write("data.csv", "a,b\n")).toEqual({ created: true });
      expect(await workspace.read("data.csv", { maxBytes })).toEqual({
        bytes: Buffer.from("a,b\n"),
        mimeType: "text/csv",
      });
      expect(await write("data.csv", "c")).toEqual({ created: false });
      expect(await read("data.csv")).toBe("c");
      await workspace.write("empty.bin", new Uint8Array());
      expect(await read("empty.bin")).toBe("");
    });

    test("makes the folders above a new file, and means the same by `./a//b/` and `a/b`", async () => {
      await write("./a//b/c.txt", "x");
      expect(await read("a/b/c.txt")).toBe("x");
      expect(await paths("a/b/")).toEqual(["a/b/c.txt"]);
    });

    test("lists what is in a folder, sorted, with kind, size, date and type", async () => {
      // A file system's clock may be a few milliseconds behind.
      const before = ago(1_000).getTime();
      await write("b.png", "12345");
      await write("a/deep.txt", "x");
      const { entries, more } = await workspace.list(".");
      expect(more).toBe(false);
      expect(entries).toMatchObject([
        { path: "a", kind: "folder" },
        { path: "b.png", kind: "file", sizeBytes: 5, mimeType: "image/png" },
      ]);
      expect(Date.parse(entries[1]?.modifiedAt ?? "")).toBeGreaterThan(before);
    });

    test("lists whole trees, and says when there is more than was asked for", async () => {
      for (const path of ["a/1.txt", "a/b/2.txt", "a.txt", "c/3.txt"]) await write(path, "x");
      const all = ["a", "a/1.txt", "a/b", "a/b/2.txt", "a.txt", "c", "c/3.txt"];
      expect(await paths(".", { recursive: true })).toEqual(all);
      expect(await paths("a", { recursive: true })).toEqual(["a/1.txt", "a/b", "a/b/2.txt"]);
      expect(await workspace.list(".", { recursive: true, limit: 7 })).toMatchObject({ more: false });
      const some = await workspace.list(".", { recursive: true, limit: 4 });
      expect(some.entries.map((entry) => entry.path)).toEqual(all.slice(0, 4));
      expect(some.more).toBe(true);
      expect(await paths("")).toEqual(["a", "a.txt", "c"]);
    });

    test("removes files, and folders with all that is in them", async () => {
      for (const path of ["a/1.txt", "a/b/c/2.txt", "d.txt"]) await write(path, "x");
      await workspace.remove("d.txt");
      await workspace.remove("a");
      expect(await paths()).toEqual([]);
    });

    test("says which names are near the one that is not there", async () => {
      await write("data/sales_2026.csv", "x");
      await write("data/unrelated.bin", "x");
      const missing = { code: "file_not_found", message: expect.stringContaining("`sales_2026.csv`") };
      await expect(read("data/sale_2026.csv")).rejects.toMatchObject(missing);
      await expect(workspace.remove("data/sales_2026.CSV")).rejects.toMatchObject(missing);
      await expect(workspace.list("dat")).rejects.toMatchObject({ message: expect.stringContaining("`data`") });
      await expect(read("dat/x/y")).rejects.toMatchObject({ message: expect.stringContaining("`data`") });
      await expect(read("zzz")).rejects.toMatchObject({ code: "file_not_found" });
      await expect(read("data/unrelated.bin/x")).rejects.toMatchObject({ code: "file_not_found" });
    });

    test("reads no more than the caller can take, and names the limit", async () => {
      await write("big.bin", "x".repeat(1_001));
      const error = { code: "too_large", message: expect.stringContaining("1000") };
      await expect(workspace.read("big.bin", { maxBytes: 1_000 })).rejects.toMatchObject(error);
      expect((await workspace.read("big.bin", { maxBytes: 1_001 })).bytes).toHaveLength(1_001);
    });

    test("tells files and folders apart", async () => {
      await write("folder/file", "x");
      const wrong = { code: "invalid_input" };
      await expect(read("folder")).rejects.toMatchObject(wrong);
      await expect(write("folder", "x")).rejects.toMatchObject(wrong);
      await expect(write(".", "x")).rejects.toMatchObject(wrong);
      await expect(workspace.list("folder/file")).rejects.toMatchObject(wrong);
      await expect(write("folder/file/below", "x")).rejects.toMatchObject({ code: "file_not_found" });
      await expect(workspace.remove(".")).rejects.toMatchObject({ code: "path_outside_session" });
      expect(await read("folder/file")).toBe("x");
    });

    test.each(hostilePaths)("refuses the path %j everywhere", async (path) => {
      const refused = { code: "path_outside_session" };
      await expect(read(path)).rejects.toMatchObject(refused);
      await expect(write(path, "x")).rejects.toMatchObject(refused);
      await expect(workspace.list(path)).rejects.toMatchObject(refused);
      await expect(workspace.remove(path)).rejects.toMatchObject(refused);
      if (workspace.hostPath) expect(() => workspace.hostPath?.(path)).toThrow();
      expect(await paths()).toEqual([]);
    });

    test.each([
      "line\nend",
      "right-to-left \u202etxt.exe",
      "-rf",
      "--help",
      " leading and trailing ",
      "100%",
      "100%25",
      "a%2Fb",
      "https%3A%2F%2Fexample.org",
      "...",
      "..a",
      "a..",
      "~",
      "$(touch x)",
      "naïve 数据 😀.csv",
      "*?[x]",
      "__proto__",
      "constructor",
      "nul",
      `${"x".repeat(251)}.txt`,
      "ä".repeat(127),
    ])("keeps a file named %j", async (path) => {
      await write(path, "x");
      expect(await read(path)).toBe("x");
      expect(await paths()).toEqual([path]);
      const mark = await workspace.mark();
      await write(path, "longer");
      expect((await workspace.changedSince(mark)).changes).toMatchObject([{ path, change: "modified", sizeBytes: 6 }]);
      await workspace.remove(path);
      expect(await paths()).toEqual([]);
    });

    test("refuses names that are too long or no text, with a reason", async () => {
      const wrong = { code: "invalid_input" };
      await expect(write("x".repeat(256), "x")).rejects.toMatchObject(wrong);
      await expect(read("ä".repeat(128))).rejects.toMatchObject(wrong);
      await expect(write(`a/${"x/".repeat(5_000)}b`, "x")).rejects.toMatchObject(wrong);
      await expect(write("half a character \ud800", "x")).rejects.toMatchObject(wrong);
      expect(await paths()).toEqual([]);
    });

    test("tells what was created, modified and deleted since a mark, in nested folders too", async () => {
      for (const path of ["same.txt", "changed.csv", "gone.bin", "old/deep.json"]) await write(path, "before");
      const mark = await workspace.mark();
      await write("changed.csv", "after, longer");
      await write("new/deeper/plot.PNG", "12");
      await workspace.remove("gone.bin");
      await workspace.remove("old");
      const { changes, complete, totalBytes } = await workspace.changedSince(mark);
      expect(complete).toBe(true);
      expect(totalBytes).toBeGreaterThan(0);
      expect(changes).toEqual([
        { path: "changed.csv", change: "modified", sizeBytes: 13, mimeType: "text/csv" },
        { path: "gone.bin", change: "deleted", sizeBytes: 0, mimeType: "application/octet-stream" },
        { path: "new/deeper/plot.PNG", change: "created", sizeBytes: 2, mimeType: "image/png" },
        { path: "old/deep.json", change: "deleted", sizeBytes: 0, mimeType: "application/json" },
      ]);
      expect((await workspace.changedSince(await workspace.mark())).changes).toEqual([]);
    });

    test("sees a change that leaves the size as it was", async () => {
      await write("a.txt", "one");
      const mark = await workspace.mark();
      await write("a.txt", "two");
      expect((await workspace.changedSince(mark)).changes).toMatchObject([{ path: "a.txt", change: "modified" }]);
    });

    test("leaves compiled Python out of the changes", async () => {
      const mark = await workspace.mark();
      await write("helper.py", "x = 1");
      await write("__pycache__/helper.cpython-313.pyc", "x");
      await write("package/__pycache__/a.pyc", "x");
      expect((await workspace.changedSince(mark)).changes.map(({ path }) => path)).toEqual(["helper.py"]);
    });
  });
}
