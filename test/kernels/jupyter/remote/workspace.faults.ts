import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
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
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CellwrightError } from "../../../../src/errors.ts";
import type { Call } from "../../../../src/kernels/jupyter/remote/helper.ts";
import { HelperRefusal } from "../../../../src/kernels/jupyter/remote/refusal.ts";
import { openRemoteWorkspace } from "../../../../src/kernels/jupyter/remote/workspace.ts";
import type { Workspace } from "../../../../src/workspace/workspace.ts";
import { hostilePaths, testWorkspace } from "../../../contracts/workspace.ts";
import { startJupyterServer } from "../../../support/jupyter-server.ts";
import { describeWith } from "../../../support/requirements.ts";
import { type HelperOnServer, serverRequirements, startHelperOnServer, startPlainHelper } from "./helpers.ts";

const flag = "flag-that-must-not-come-out";
const maxBytes = 30_000_000;

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `on ${name}`, (python) => {
    let here: HelperOnServer;
    beforeAll(async () => {
      here = await startHelperOnServer(python);
    }, 60_000);
    afterAll(() => here.stop());

    const open = (sessionId: string = randomUUID(), notebooksFolder = "notebooks") =>
      openRemoteWorkspace({ call: here.helper.call, notebooksFolder, sessionId });

    testWorkspace({
      name: "a remote workspace",
      async open() {
        const sessionId = randomUUID();
        mkdirSync(join(here.started.home, "notebooks", sessionId), { recursive: true });
        writeFileSync(join(here.started.home, "notebooks", "up"), flag);
        return { workspace: open(sessionId), close: async () => {} };
      },
    });

    test("carries 20 MB both ways, byte by byte the same", async () => {
      const workspace = open();
      const bytes = randomBytes(20_000_000);
      expect(await workspace.write("deep/large.bin", bytes)).toEqual({ created: true });
      const { bytes: back } = await workspace.read("deep/large.bin", { maxBytes });
      expect(Buffer.from(back).equals(bytes)).toBe(true);
      expect(await workspace.write("deep/large.bin", bytes.subarray(1))).toEqual({ created: false });
      expect((await workspace.read("deep/large.bin", { maxBytes })).bytes).toHaveLength(19_999_999);
      await expect(workspace.read("deep/large.bin", { maxBytes: 1_000 })).rejects.toMatchObject({ code: "too_large" });
      await expect(workspace.write("deep", bytes)).rejects.toMatchObject({ code: "invalid_input" });
      expect(readdirSync(join(here.started.home, "notebooks/.cellwright/uploads"))).toEqual([]);
    });

    test("keeps its folders for the server's user alone, from that user's home or at an absolute place", async () => {
      const absolute = join(here.started.home, "some/where");
      await open("s1", absolute).write("a/b.txt", Buffer.from("x"));
      await open("s1", "from/home").write("a/b.txt", Buffer.from("x"));
      await open("s1", "~/tilde").write("a/b.txt", Buffer.from("x"));
      for (const folder of [absolute, "from/home", "tilde"].map((path) => resolve(here.started.home, path))) {
        expect(readFileSync(join(folder, "s1/a/b.txt"), "utf8")).toBe("x");
        for (const part of ["", "s1", "s1/a"]) expect(statSync(join(folder, part)).mode & 0o777).toBe(0o700);
        expect(statSync(join(folder, "s1/a/b.txt")).mode & 0o777).toBe(0o600);
      }
    });

    test("looks through thousands of files in less than a second or two, and says when there are too many", async () => {
      const root = join(here.started.home, "notebooks", "many");
      mkdirSync(join(root, "folder"), { recursive: true });
      for (let count = 0; count < 9_999; count += 1) writeFileSync(join(root, "folder", `file-${count}`), "");
      const workspace = open("many");
      const mark = await workspace.mark();
      expect([mark.complete, mark.files.size]).toEqual([true, 9_999]);
      writeFileSync(join(root, "folder", "file-5"), "changed");
      expect(await workspace.changedSince(mark)).toMatchObject({
        changes: [{ path: "folder/file-5", change: "modified", sizeBytes: 7 }],
        complete: true,
      });
      expect((await workspace.list("folder")).entries).toHaveLength(9_999);
      writeFileSync(join(root, "one"), "");
      writeFileSync(join(root, "two"), "");
      const now = await workspace.changedSince(mark);
      expect(now.complete).toBe(false);
      expect(now.changes.filter(({ change }) => change === "deleted")).toEqual([]);
      const listed = await workspace.list(".", { recursive: true, limit: 10 });
      expect([listed.entries.length, listed.more]).toEqual([10, true]);
      await workspace.remove("folder");
      expect(readdirSync(root).sort()).toEqual(["one", "two"]);
    });

    test("while a folder is exchanged for a link that leads out, nothing gets out", async () => {
      const root = join(here.started.home, "notebooks", "raced");
      const outside = join(here.started.home, "outside");
      mkdirSync(join(root, "d"), { recursive: true });
      mkdirSync(outside, { recursive: true });
      symlinkSync(outside, join(root, "l"));
      writeFileSync(join(root, "d", "file"), "inside");
      writeFileSync(join(outside, "file"), flag);
      const swapper = fork(join(import.meta.dirname, "../../../workspace/swapper.mjs"), [root, outside]);
      try {
        await once(swapper, "message");
        await raced({ workspace: open("raced"), outside, rounds: 60 });
      } finally {
        swapper.kill("SIGKILL");
        await once(swapper, "exit");
      }
    });
  });
}

/** What is tried while `d` is swapped; only our own refusals may come of it. */
async function raced({ workspace, outside, rounds }: { workspace: Workspace; outside: string; rounds: number }) {
  const before = readdirSync(outside);
  const seen = new Set<string>();
  let done = 0;
  let refused = 0;
  const attempts = [
    async () => void seen.add(Buffer.from((await workspace.read("d/file", { maxBytes })).bytes).toString()),
    () => workspace.write("d/new", Buffer.from("written")),
    () => workspace.write("d/file", Buffer.from("inside")),
    async () => void seen.add((await workspace.list("d")).entries.map(({ path }) => path).join()),
    async () => void seen.add([...(await workspace.mark()).files.keys()].join()),
    () => workspace.remove("d/new"),
  ];
  for (let round = 0; round < rounds; round += 1) {
    for (const attempt of attempts) {
      try {
        await attempt();
        done += 1;
      } catch (error) {
        if (!(error instanceof CellwrightError)) throw error;
        expect(error).not.toMatchObject({ code: "internal" });
        refused += 1;
      }
    }
  }
  expect([...seen].join()).not.toContain(flag);
  expect(readdirSync(outside)).toEqual(before);
  expect(readFileSync(join(outside, "file"), "utf8")).toBe(flag);
  expect(Math.min(done, refused)).toBeGreaterThan(0);
}

describeWith("debianJupyterServer", "CVE-2026-35397, a sibling whose name begins like the root's,", (python) => {
  test("is served by the contents API of Debian's server, which is never asked, and refused by us", async () => {
    const base = mkdtempSync(join(tmpdir(), "cw-cve-"));
    for (const folder of ["ws1", "ws10"]) mkdirSync(join(base, folder));
    writeFileSync(join(base, "ws10/secret"), flag);
    const server = await startJupyterServer(python, { home: join(base, "ws1") });
    const plain = startPlainHelper({ home: base });
    try {
      const url = `${server.url}/api/contents/..%2fws10%2fsecret?type=file&format=text`;
      const answer = await fetch(url, { headers: { Authorization: `token ${server.token}` } });
      expect(await answer.text(), "the control").toContain(flag);
      const workspace = openRemoteWorkspace({ call: plain.call, notebooksFolder: base, sessionId: "ws1" });
      for (const path of ["../ws10/secret", "..%2fws10%2fsecret", "..%2fws10/secret", "a/../../ws10/secret"]) {
        const refused = { code: "path_outside_session" };
        await expect(workspace.read(path, { maxBytes })).rejects.toMatchObject(refused);
        await expect(workspace.write(path, Buffer.from("x"))).rejects.toMatchObject(refused);
        await expect(workspace.remove(path)).rejects.toMatchObject(refused);
      }
      // Without the look at the path on our side: the walk on the server does not climb either.
      const names = ["..", "ws10", "secret"];
      const where = { notebooks: base, session: "ws1", names };
      await expect(plain.call("read", { ...where, offset: 0, length: 9, limit: 99 })).rejects.toMatchObject({
        refusal: { kind: "outside" },
      });
      for (const session of ["../ws10", "..", ".", "ws1/../ws10", "ws1\n"]) {
        await expect(plain.call("scan", { notebooks: base, session })).rejects.toBeInstanceOf(HelperRefusal);
      }
      symlinkSync("../ws10", join(base, "ws1/link"));
      await expect(workspace.read("link/secret", { maxBytes })).rejects.toMatchObject({ code: "path_outside_session" });
      expect(readFileSync(join(base, "ws10/secret"), "utf8")).toBe(flag);
    } finally {
      await plain.stop();
      await server.stop();
      rmSync(base, { recursive: true });
    }
  }, 60_000);
});

describe("a remote workspace, with what a cell can put there,", () => {
  let base: string;
  let root: string;
  let workspace: Workspace;
  let plain: ReturnType<typeof startPlainHelper>;
  let other: ChildProcess | undefined;
  const inside = (...names: string[]) => join(root, ...names);
  const read = async (path: string) => Buffer.from((await workspace.read(path, { maxBytes })).bytes).toString();
  const refused = { code: "path_outside_session" };

  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), "cw-remote-ws-"));
    root = join(base, "ws1");
    mkdirSync(root, { mode: 0o700 });
    writeFileSync(join(base, "up"), flag);
    plain = startPlainHelper({ home: base });
    workspace = openRemoteWorkspace({ call: plain.call, notebooksFolder: base, sessionId: "ws1" });
  });
  afterEach(async () => {
    other?.kill("SIGKILL");
    other = undefined;
    await plain.stop();
    rmSync(base, { recursive: true, force: true });
  });

  async function expectRefused(path: string): Promise<void> {
    await expect(read(path)).rejects.toMatchObject(refused);
    await expect(workspace.write(path, Buffer.from("overwritten"))).rejects.toMatchObject(refused);
    expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
  }

  test("refuses links that lead out, and removes the link alone", async () => {
    mkdirSync(inside("a"));
    for (const target of [join(base, "up"), "../up", "a/../../up"]) {
      symlinkSync(target, inside("link.txt"));
      expect(readFileSync(inside("link.txt"), "utf8"), "the control").toBe(flag);
      await expectRefused("link.txt");
      await expect(workspace.list("link.txt")).rejects.toMatchObject(refused);
      expect((await workspace.list(".")).entries).toMatchObject([{ path: "a" }, { path: "link.txt", kind: "other" }]);
      await workspace.remove("link.txt");
      expect(existsSync(inside("link.txt"))).toBe(false);
    }
    symlinkSync(base, inside("out"));
    await expectRefused("out/up");
    await expectRefused("out/new/file");
    await expect(workspace.remove("out/up")).rejects.toMatchObject(refused);
    expect([...(await workspace.mark()).files.keys()]).toEqual([]);
    symlinkSync(base, inside("a", "out"));
    await workspace.remove("a");
    expect(readFileSync(join(base, "up"), "utf8")).toBe(flag);
  });

  test("follows links that stay inside, and gives up on circles", async () => {
    mkdirSync(inside("data"));
    writeFileSync(inside("data", "a.txt"), "inside");
    symlinkSync("data", inside("current"));
    symlinkSync("../data/./a.txt", inside("data", "b.txt"));
    symlinkSync("current/../data/b.txt", inside("c.txt"));
    expect(await read("c.txt")).toBe("inside");
    await workspace.write("c.txt", Buffer.from("through three links"));
    expect(readFileSync(inside("data", "a.txt"), "utf8")).toBe("through three links");
    symlinkSync("not/yet/there.txt", inside("dangling"));
    await expect(read("dangling")).rejects.toMatchObject({ code: "file_not_found" });
    await workspace.write("dangling", Buffer.from("made"));
    expect(readFileSync(inside("not", "yet", "there.txt"), "utf8")).toBe("made");
    symlinkSync("two", inside("one"));
    symlinkSync("one", inside("two"));
    symlinkSync("self/self", inside("self"));
    for (const path of ["one", "two/x", "self"]) await expectRefused(path);
  });

  test("refuses what is not an ordinary file with one name, without waiting for it", async () => {
    linkSync(join(base, "up"), inside("hard"));
    execFileSync("mkfifo", [inside("fifo")]);
    const server = createServer().listen(inside("socket"));
    await once(server, "listening");
    for (const path of ["hard", "fifo", "socket"]) await expectRefused(path);
    if (process.getuid?.() === 0) {
      execFileSync("mknod", [inside("zero"), "c", "1", "5"]);
      await expectRefused("zero");
    }
    server.close();
  });

  test("refuses a workspace that was itself replaced by a link, and makes a removed one again", async () => {
    rmSync(root, { recursive: true });
    expect(await workspace.list(".")).toEqual({ entries: [], more: false });
    const mark = await workspace.mark();
    await expect(read("x")).rejects.toMatchObject({ code: "file_not_found" });
    await workspace.write("a/b", Buffer.from("x"));
    expect((await workspace.changedSince(mark)).changes).toMatchObject([{ path: "a/b", change: "created" }]);
    expect(statSync(root).mode & 0o777).toBe(0o700);
    rmSync(root, { recursive: true });
    mkdirSync(join(base, "ws10"));
    writeFileSync(join(base, "ws10", "up"), flag);
    symlinkSync("ws10", root);
    await expect(read("up")).rejects.toThrow(CellwrightError);
    await expect(workspace.list(".")).rejects.toThrow(CellwrightError);
    await expect(workspace.write("new", Buffer.from("x"))).rejects.toThrow(CellwrightError);
    expect(readdirSync(join(base, "ws10"))).toEqual(["up"]);
    expect(await workspace.mark()).toMatchObject({ complete: false, files: new Map() });
  });

  test("keeps a script executable, counts sparse files by what they take, lists impossible dates", async () => {
    writeFileSync(inside("run.sh"), "#!/bin/sh");
    chmodSync(inside("run.sh"), 0o755);
    await workspace.write("run.sh", Buffer.from("#!/bin/bash"));
    expect(statSync(inside("run.sh")).mode & 0o777).toBe(0o700);
    writeFileSync(inside("sparse"), "");
    truncateSync(inside("sparse"), 1e12);
    await expect(read("sparse")).rejects.toMatchObject({ code: "too_large" });
    expect((await workspace.changedSince(await workspace.mark())).totalBytes).toBeLessThan(1_000_000);
    utimesSync(inside("run.sh"), -1e9, -1e9);
    utimesSync(inside("sparse"), 9e9, 9e9);
    const { entries } = await workspace.list(".");
    for (const { modifiedAt } of entries) expect(modifiedAt).toMatch(/^\d{4}-\d\d-\d\dT/);
  });

  test("copes with names that are no text, and with folders that were closed", async () => {
    mkdirSync(inside("folder", "closed"), { recursive: true });
    const noText = Buffer.concat([Buffer.from(`${inside("folder")}/`), Buffer.from([0xff, 0xfe])]);
    writeFileSync(noText, "x".repeat(10_000));
    writeFileSync(inside("folder", "closed", "file"), "x");
    chmodSync(inside("folder", "closed"), 0o000);
    expect((await workspace.list("folder")).entries).toMatchObject([
      { path: "folder/closed", kind: "folder" },
      { kind: "file", sizeBytes: 10_000 },
    ]);
    expect((await workspace.mark()).files.size).toBeGreaterThan(0);
    expect((await workspace.changedSince(await workspace.mark())).totalBytes).toBeGreaterThan(8_000);
    await workspace.remove("folder");
    expect(readdirSync(root)).toEqual([]);
  });

  test("marks, lists and removes folders nested deeper than a path can say", async () => {
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

  test("gives others a turn while it removes a large folder", async () => {
    mkdirSync(inside("large"));
    for (let count = 0; count < 30_000; count += 1) writeFileSync(inside("large", `f${count}`), "");
    const order: string[] = [];
    const asked: Call = (operation, ...rest) => {
      order.push(operation);
      return plain.call(operation, ...rest);
    };
    await openRemoteWorkspace({ call: asked, notebooksFolder: base, sessionId: "ws1" }).remove("large");
    expect(order.filter((operation) => operation === "remove_rest").length).toBeGreaterThan(0);
    expect(readdirSync(root)).toEqual([]);
  });

  test("leaves no file open, whatever is asked of it", async () => {
    symlinkSync("../up", inside("link"));
    symlinkSync("loop", inside("loop"));
    linkSync(join(base, "up"), inside("hard"));
    await workspace.write("a/b/file", Buffer.from("x"));
    const open = () => readdirSync(`/proc/${plain.pid}/fd`).length;
    const before = open();
    for (const path of [...hostilePaths, "link", "loop/x", "hard", "a", "a/b/file", "a/b/none", "a/b/file/x"]) {
      await read(path).catch(() => {});
      await workspace.write(path, Buffer.from("x")).catch(() => {});
      await workspace.list(path, { recursive: true }).catch(() => {});
      await workspace.remove(path).catch(() => {});
      await workspace.changedSince(await workspace.mark());
    }
    expect(open()).toBe(before);
  });

  test("while a folder is exchanged for a link that leads out, and back, nothing gets out", async () => {
    const outside = join(base, "outside");
    mkdirSync(outside);
    mkdirSync(inside("d"));
    symlinkSync(outside, inside("l"));
    writeFileSync(inside("d", "file"), "inside");
    writeFileSync(join(outside, "file"), flag);
    other = fork(join(import.meta.dirname, "../../../workspace/swapper.mjs"), [root, outside]);
    await once(other, "message");
    await raced({ workspace, outside, rounds: 500 });
  });

  test("a copy of a file that is rewritten and cut short is the file of one moment, or none", async () => {
    const fullBytes = 4_000_000;
    writeFileSync(inside("file"), Buffer.alloc(fullBytes, "A"));
    const script = join(import.meta.dirname, "../../../workspace/rewriter.mjs");
    other = fork(script, [inside("file"), String(fullBytes), "1500000"]);
    await once(other, "message");
    let done = 0;
    let changing = 0;
    for (let round = 0; round < 20 || (done === 0 && round < 1_000); round += 1) {
      try {
        const { bytes } = await workspace.read("file", { maxBytes });
        expect(Buffer.from(bytes).toString("latin1")).toMatch(/^(A*B*|B*A*)$/);
        done += 1;
      } catch (error) {
        expect(error).toMatchObject({ code: "kernel_busy" });
        changing += 1;
      }
    }
    expect(Math.min(done, changing)).toBeGreaterThan(0);
  });

  test("a file that never comes to rest is not believed, though each look at it is the same", async () => {
    let busy = true;
    const changing = (async () => {
      for (let count = 0; busy; count += 1) {
        writeFileSync(inside("file"), String(count));
        await new Promise((next) => setTimeout(next, 1));
      }
    })();
    await expect(workspace.read("file", { maxBytes })).rejects.toMatchObject({ code: "kernel_busy" });
    busy = false;
    await changing;
  });

  test("a file that is replaced between two pieces is not put together of both", async () => {
    writeFileSync(inside("file"), Buffer.alloc(3_000_000, "A"));
    utimesSync(inside("file"), 1, 1);
    let pieces = 0;
    const meddling: Call = async (operation, ...rest) => {
      const answer = await plain.call(operation, ...rest);
      pieces += 1;
      // The same size and the same date: only what cannot be set tells.
      if (operation === "read" && pieces % 3 === 1) {
        writeFileSync(inside("other"), Buffer.alloc(3_000_000, "B"));
        utimesSync(inside("other"), 1, 1);
        execFileSync("mv", [inside("other"), inside("file")]);
      }
      return answer as never;
    };
    const meddled = openRemoteWorkspace({ call: meddling, notebooksFolder: base, sessionId: "ws1" });
    await expect(meddled.read("file", { maxBytes })).rejects.toMatchObject({ code: "kernel_busy" });
  });

  test("says that the disk is full, and leaves nothing of what did not fit", async () => {
    if (process.getuid?.() !== 0) return;
    const small = join(base, "small");
    mkdirSync(join(small), { recursive: true });
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", small], { stdio: "ignore" });
    } catch {
      return;
    }
    try {
      const tight = openRemoteWorkspace({ call: plain.call, notebooksFolder: small, sessionId: "ws1" });
      await tight.write("kept", Buffer.from("x"));
      const full = { code: "storage_full" };
      await expect(tight.write("large", Buffer.alloc(5_000_000))).rejects.toMatchObject(full);
      // Fits beside itself once only.
      await expect(tight.write("large", Buffer.alloc(3_000_000))).rejects.toMatchObject(full);
      expect(readdirSync(join(small, "ws1"))).toEqual(["kept"]);
      expect(readdirSync(join(small, ".cellwright/uploads"))).toEqual([]);
    } finally {
      execFileSync("umount", [small]);
    }
  });

  test("a removal that is asked for again, because nobody knows whether it was done, is done", async () => {
    const where = { notebooks: base, session: "ws1", names: ["gone.txt"] };
    await expect(plain.call("remove", where)).rejects.toMatchObject({ refusal: { kind: "missing" } });
    expect(await plain.callAgain("remove", where)).toEqual({ doomed: null });
  });
});
