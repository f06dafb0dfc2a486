import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { hostilePaths } from "./workspace.ts";

const isLinux = process.platform === "linux";
const flag = "flag-that-must-not-come-out";
const maxBytes = 1_000_000;

interface OpenedFolder {
  workspace: Workspace;
  /** The number of open files of the process that does the work. */
  openFiles(): number;
  close(): Promise<void>;
}

/** What every workspace on this machine must withstand: links, hard links, devices. */
export function testPlanted({
  name,
  open,
}: {
  name: string;
  open(root: string): OpenedFolder | Promise<OpenedFolder>;
}): void {
  describe(`${name}, with what a cell can put there,`, () => {
    let base: string;
    let root: string;
    let opened: OpenedFolder;
    let workspace: Workspace;
    const inside = (...names: string[]) => join(root, ...names);
    const read = async (path: string) => Buffer.from((await workspace.read(path, { maxBytes })).bytes).toString();
    const refused = { code: "path_outside_session" };

    beforeEach(async () => {
      base = mkdtempSync(join(tmpdir(), "cellwright-ws-"));
      root = join(base, "ws1");
      mkdirSync(root, { mode: 0o700 });
      mkdirSync(join(base, "ws10"));
      for (const file of ["up", "ws10/up"]) writeFileSync(join(base, file), flag);
      opened = await open(root);
      workspace = opened.workspace;
    });
    afterEach(async () => {
      await opened.close();
      rmSync(base, { recursive: true, force: true });
    });

    async function expectRefused(path: string): Promise<void> {
      await expect(read(path)).rejects.toMatchObject(refused);
      await expect(workspace.write(path, Buffer.from("overwritten"))).rejects.toMatchObject(refused);
      expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
    }

    test("refuses paths by which a naive join gets out", async () => {
      const naive = (path: string) => readFileSync(join(root, decodeURIComponent(path)), "utf8");
      const reached = hostilePaths.filter((path) => {
        try {
          return naive(path) === flag;
        } catch {
          return false;
        }
      });
      expect(reached.length).toBeGreaterThan(3);
      for (const path of reached) await expectRefused(path);
    });

    test("refuses a sibling whose name begins like its own, which a check by prefix lets through", async () => {
      const naive = resolve(root, "../ws10/up");
      expect(naive.startsWith(root) && readFileSync(naive, "utf8")).toBe(flag);
      await expectRefused("../ws10/up");
      symlinkSync("../ws10", inside("link"));
      await expectRefused("link/up");
    });

    test.each([
      ["absolute", (to: string) => to, "up"],
      ["relative", () => "../up", "up"],
      ["by way of a folder inside", () => "a/../../up", "up"],
    ])("refuses a link out (%s): read, write; removing it removes the link alone", async (_, target, file) => {
      mkdirSync(inside("a"));
      symlinkSync(target(join(base, file)), inside("link.txt"));
      expect(readFileSync(inside("link.txt"), "utf8"), "the control").toBe(flag);
      await expectRefused("link.txt");
      await expect(workspace.list("link.txt")).rejects.toMatchObject(refused);
      expect((await workspace.list(".")).entries).toMatchObject([{ path: "a" }, { path: "link.txt", kind: "other" }]);
      await workspace.remove("link.txt");
      expect(existsSync(inside("link.txt"))).toBe(false);
      expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
    });

    test("refuses a link to a folder outside: read, write, list, remove, marks", async () => {
      symlinkSync(base, inside("out"));
      expect(readFileSync(inside("out", "up"), "utf8"), "the control").toBe(flag);
      await expectRefused("out/up");
      await expectRefused("out/new/file");
      await expect(workspace.list("out")).rejects.toMatchObject(refused);
      await expect(workspace.remove("out/up")).rejects.toMatchObject(refused);
      const { entries } = await workspace.list(".", { recursive: true });
      expect(entries.map(({ path, kind }) => [path, kind])).toEqual([["out", "other"]]);
      expect([...(await workspace.mark()).files.keys()]).toEqual([]);
      mkdirSync(inside("folder"));
      symlinkSync(base, inside("folder", "out"));
      await workspace.remove("folder");
      expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
    });

    test("follows links that stay inside", async () => {
      mkdirSync(inside("data"));
      writeFileSync(inside("data", "a.txt"), "inside");
      symlinkSync("data", inside("current"));
      symlinkSync("../data/./a.txt", inside("data", "b.txt"));
      symlinkSync("current/../data/b.txt", inside("c.txt"));
      expect(await read("c.txt")).toBe("inside");
      await workspace.write("c.txt", Buffer.from("through three links"));
      expect(readFileSync(inside("data", "a.txt"), "utf8")).toBe("through three links");
      expect((await workspace.list("current")).entries.map((entry) => entry.path)).toContain("current/a.txt");
      symlinkSync("not/yet/there.txt", inside("dangling"));
      await expect(read("dangling")).rejects.toMatchObject({ code: "file_not_found" });
      await workspace.write("dangling", Buffer.from("made"));
      expect(readFileSync(inside("not", "yet", "there.txt"), "utf8")).toBe("made");
    });

    test("gives up on links in a circle", async () => {
      symlinkSync("b", inside("a"));
      symlinkSync("a", inside("b"));
      symlinkSync("self/self", inside("self"));
      for (const path of ["a", "b/x", "self"]) await expectRefused(path);
      await workspace.list(".", { recursive: true });
    });

    test("refuses a second name of a file outside", async () => {
      linkSync(join(base, "up"), inside("hard.txt"));
      expect(readFileSync(inside("hard.txt"), "utf8"), "the control").toBe(flag);
      await expectRefused("hard.txt");
      await workspace.remove("hard.txt");
      expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
    });

    test.skipIf(process.platform === "win32")("refuses a FIFO without waiting for its other end", async () => {
      execFileSync("mkfifo", [inside("fifo")]);
      await expectRefused("fifo");
      expect((await workspace.list(".")).entries).toMatchObject([{ kind: "other", sizeBytes: 0 }]);
      await workspace.mark();
      await workspace.remove("fifo");
      // The control: a plain read of the same file is still blocked at the timeout.
      execFileSync("mkfifo", [inside("fifo")]);
      const options = { timeout: 500, stdio: "ignore" } as const;
      expect(() => execFileSync("cat", [inside("fifo")], options)).toThrow(/ETIMEDOUT/);
    });

    test.skipIf(process.platform === "win32")("refuses a socket", async () => {
      const server = createServer().listen(inside("socket"));
      await new Promise((done) => server.once("listening", done));
      await expectRefused("socket");
      server.close();
    });

    const canMakeDevices = isLinux && process.getuid?.() === 0;
    test.skipIf(!canMakeDevices)(`refuses a device${canMakeDevices ? "" : " (needs root on Linux)"}`, async () => {
      execFileSync("mknod", [inside("zero"), "c", "1", "5"]);
      const fd = openSync(inside("zero"), "r");
      expect(readSync(fd, Buffer.alloc(9)), "the control").toBe(9);
      closeSync(fd);
      await expectRefused("zero");
    });

    test("refuses a workspace that was itself replaced by a link", async () => {
      rmSync(root, { recursive: true });
      symlinkSync(join(base, "ws10"), root);
      expect(readFileSync(inside("up"), "utf8"), "the control").toBe(flag);
      await expect(read("up")).rejects.toThrow();
      await expect(workspace.list(".")).rejects.toThrow();
      await expect(workspace.write("new", Buffer.from("x"))).rejects.toThrow();
      expect(readdirSync(join(base, "ws10"))).toEqual(["up"]);
      expect(await workspace.mark()).toMatchObject({ complete: false, files: new Map() });
    });

    test("takes a workspace that was removed for an empty one, and makes it again", async () => {
      rmSync(root, { recursive: true });
      expect(await workspace.list(".")).toEqual({ entries: [], more: false });
      const mark = await workspace.mark();
      await expect(read("x")).rejects.toMatchObject({ code: "file_not_found" });
      await workspace.write("a/b", Buffer.from("x"));
      expect((await workspace.changedSince(mark)).changes).toMatchObject([{ path: "a/b", change: "created" }]);
      if (process.platform !== "win32") expect(statSync(root).mode & 0o777).toBe(0o700);
    });

    test.skipIf(process.platform === "win32")(
      "writes files as 0600 in folders of 0700, and keeps a script executable",
      async () => {
        await workspace.write("new/a.txt", Buffer.from("x"));
        expect(statSync(inside("new")).mode & 0o777).toBe(0o700);
        expect(statSync(inside("new", "a.txt")).mode & 0o777).toBe(0o600);
        writeFileSync(inside("run.sh"), "#!/bin/sh");
        chmodSync(inside("run.sh"), 0o755);
        await workspace.write("run.sh", Buffer.from("#!/bin/bash"));
        expect(statSync(inside("run.sh")).mode & 0o777).toBe(0o700);
        expect(readdirSync(root).sort()).toEqual(["new", "run.sh"]);
      },
    );

    test("refuses a terabyte of nothing by its size, and counts it by what it takes", async () => {
      writeFileSync(inside("sparse"), "");
      truncateSync(inside("sparse"), 1e12);
      await expect(read("sparse")).rejects.toMatchObject({ code: "too_large" });
      const { totalBytes } = await workspace.changedSince(await workspace.mark());
      if (process.platform !== "win32") expect(totalBytes).toBeLessThan(1_000_000);
    });

    test("lists files with impossible dates", async () => {
      writeFileSync(inside("future"), "x");
      utimesSync(inside("future"), 9e9, 9e9);
      writeFileSync(inside("past"), "x");
      utimesSync(inside("past"), -1e9, -1e9);
      const { entries } = await workspace.list(".");
      for (const { modifiedAt } of entries) expect(modifiedAt).toMatch(/^\d{4}-\d\d-\d\dT/);
    });

    test.skipIf(!isLinux)("keeps names apart that differ in case only", async () => {
      await workspace.write("Data.csv", Buffer.from("upper"));
      await workspace.write("data.csv", Buffer.from("lower"));
      expect(await read("Data.csv")).toBe("upper");
      expect(await read("data.csv")).toBe("lower");
    });

    test.skipIf(!isLinux)("copes with names that are no text", async () => {
      mkdirSync(inside("folder"));
      writeFileSync(
        Buffer.concat([Buffer.from(`${inside("folder")}/`), Buffer.from([0xff, 0xfe])]),
        "x".repeat(10_000),
      );
      expect((await workspace.list("folder")).entries).toMatchObject([{ kind: "file", sizeBytes: 10_000 }]);
      const { totalBytes } = await workspace.changedSince(await workspace.mark());
      expect(totalBytes).toBeGreaterThan(8_000);
      await workspace.remove("folder");
      expect(readdirSync(root)).toEqual([]);
    });

    test.skipIf(!isLinux)("leaves no file open, whatever is asked of it", async () => {
      symlinkSync("../up", inside("link"));
      symlinkSync("loop", inside("loop"));
      linkSync(join(base, "up"), inside("hard"));
      await workspace.write("a/b/file", Buffer.from("x"));
      const before = opened.openFiles();
      for (const path of [
        ...hostilePaths,
        "link",
        "loop/x",
        "hard",
        "a",
        "a/b/file",
        "a/b/none",
        "none/x",
        "a/b/file/x",
      ]) {
        await read(path).catch(() => {});
        await workspace.write(path, Buffer.from("x")).catch(() => {});
        await workspace.list(path, { recursive: true }).catch(() => {});
        await workspace.remove(path).catch(() => {});
        await workspace.changedSince(await workspace.mark());
      }
      expect(opened.openFiles()).toBe(before);
    });

    test.skipIf(!isLinux)("copes with folders that were closed", async () => {
      mkdirSync(inside("folder", "closed"), { recursive: true });
      writeFileSync(inside("folder", "closed", "file"), "x");
      chmodSync(inside("folder", "closed"), 0o000);
      expect((await workspace.list("folder")).entries).toMatchObject([{ path: "folder/closed", kind: "folder" }]);
      await workspace.mark();
      await workspace.remove("folder");
      expect(readdirSync(root)).toEqual([]);
    });

    test.skipIf(!isLinux)("marks, lists and removes folders nested deeper than a path can say", async () => {
      execFileSync(process.execPath, [
        "-e",
        'const fs = require("node:fs"); process.chdir(process.argv[1]); fs.mkdirSync("deep"); process.chdir("deep");' +
          'for (let i = 0; i < 2000; i++) { fs.mkdirSync("dd"); process.chdir("dd"); fs.writeFileSync("file", ""); }',
        root,
      ]);
      expect((await workspace.mark()).complete).toBe(false);
      expect((await workspace.list(".", { recursive: true })).more).toBe(true);
      await workspace.remove("deep");
      expect(readdirSync(root)).toEqual([]);
    });
  });
}
