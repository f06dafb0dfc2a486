import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CellwrightError } from "../../../../src/errors.ts";
import type { Call } from "../../../../src/kernels/remote/files/helper.ts";
import { openRemoteWorkspace } from "../../../../src/kernels/remote/files/workspace.ts";
import { HelperRefusal } from "../../../../src/kernels/remote/server/refusal.ts";
import type { Workspace } from "../../../../src/workspace/workspace.ts";
import { testPlanted } from "../../../contracts/planted.ts";
import { testWorkspace } from "../../../contracts/workspace.ts";
import { startJupyterServer } from "../../../support/jupyter-server.ts";
import { describeWith } from "../../../support/requirements.ts";
import { type HelperOnServer, serverRequirements, startHelperOnServer, startPlainHelper } from "../helpers.ts";

const flag = "flag-that-must-not-come-out";
const maxBytes = 30_000_000;

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `on ${name}`, (python) => {
    let here: HelperOnServer;
    beforeAll(async () => {
      here = await startHelperOnServer(python);
    });
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
      const swapper = fork(join(import.meta.dirname, "../../../workspace/local/swapper.mjs"), [root, outside]);
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

/** Operations while `d` is being swapped; only our own refusals may result. */
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
      // Without the client-side path check: the walk on the server refuses `..`, too.
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
  });
});

testPlanted({
  name: "a remote workspace",
  open(root) {
    const plain = startPlainHelper({ home: dirname(root) });
    const place = { notebooksFolder: dirname(root), sessionId: basename(root) };
    return {
      workspace: openRemoteWorkspace({ call: plain.call, ...place }),
      openFiles: () => readdirSync(`/proc/${plain.pid}/fd`).length,
      close: () => plain.stop(),
    };
  },
});

describe("a remote workspace whose files change meanwhile", () => {
  let base: string;
  let root: string;
  let workspace: Workspace;
  let plain: ReturnType<typeof startPlainHelper>;
  let other: ChildProcess | undefined;
  const inside = (...names: string[]) => join(root, ...names);

  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), "cw-remote-ws-"));
    root = join(base, "ws1");
    mkdirSync(root, { mode: 0o700 });
    plain = startPlainHelper({ home: base });
    workspace = openRemoteWorkspace({ call: plain.call, notebooksFolder: base, sessionId: "ws1" });
  });
  afterEach(async () => {
    other?.kill("SIGKILL");
    other = undefined;
    await plain.stop();
    rmSync(base, { recursive: true, force: true });
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

  test("while a folder is exchanged for a link that leads out, and back, nothing gets out", async () => {
    const outside = join(base, "outside");
    mkdirSync(outside);
    mkdirSync(inside("d"));
    symlinkSync(outside, inside("l"));
    writeFileSync(inside("d", "file"), "inside");
    writeFileSync(join(outside, "file"), flag);
    other = fork(join(import.meta.dirname, "../../../workspace/local/swapper.mjs"), [root, outside]);
    await once(other, "message");
    await raced({ workspace, outside, rounds: 500 });
  });

  test("a copy of a file that is rewritten and cut short is the file of one moment, or none", async () => {
    const fullBytes = 4_000_000;
    writeFileSync(inside("file"), Buffer.alloc(fullBytes, "A"));
    const script = join(import.meta.dirname, "../../../workspace/local/rewriter.mjs");
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
    writeFileSync(inside("file"), "x");
    // For this helper, every file has just been written.
    const helper = startPlainHelper({ home: base, tickNs: 1e18 });
    try {
      const restless = openRemoteWorkspace({ call: helper.call, notebooksFolder: base, sessionId: "ws1" });
      await expect(restless.read("file", { maxBytes })).rejects.toMatchObject({ code: "kernel_busy" });
    } finally {
      await helper.stop();
    }
    expect(Buffer.from((await workspace.read("file", { maxBytes })).bytes).toString()).toBe("x");
  });

  test("a file that is replaced between two pieces is not put together of both", async () => {
    writeFileSync(inside("file"), Buffer.alloc(3_000_000, "A"));
    utimesSync(inside("file"), 1, 1);
    let pieces = 0;
    const meddling: Call = async (operation, ...rest) => {
      const answer = await plain.call(operation, ...rest);
      pieces += 1;
      // Same size and same date: only attributes that cannot be set differ.
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
      // There is space for one copy only.
      await expect(tight.write("large", Buffer.alloc(3_000_000))).rejects.toMatchObject(full);
      expect(readdirSync(join(small, "ws1"))).toEqual(["kept"]);
      expect(readdirSync(join(small, ".cellwright/uploads"))).toEqual([]);
    } finally {
      execFileSync("umount", [small]);
    }
  });

  test("a removal that is repeated, because its outcome is unknown, succeeds", async () => {
    const where = { notebooks: base, session: "ws1", names: ["gone.txt"] };
    await expect(plain.call("remove", where)).rejects.toMatchObject({ refusal: { kind: "missing" } });
    expect(await plain.callAgain("remove", where)).toEqual({ doomed: null });
  });
});
