import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import {
  createReadStream,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CellwrightError } from "../../../src/errors.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import type { Workspace } from "../../../src/workspace/workspace.ts";

const ROUNDS = 1_000;
const isLinux = process.platform === "linux";
const maxBytes = 10_000_000;

let base: string;
let root: string;
let outside: string;
let workspace: Workspace;
let other: ChildProcess | undefined;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "cellwright-race-"));
  root = join(base, "root");
  outside = join(base, "outside");
  for (const folder of [root, outside]) mkdirSync(folder);
  workspace = openLocalWorkspace(root);
});
afterEach(async () => {
  if (other) {
    other.kill("SIGKILL");
    await once(other, "exit");
    other = undefined;
  }
  rmSync(base, { recursive: true, force: true });
});

async function start(script: string, ...args: string[]): Promise<void> {
  other = fork(join(import.meta.dirname, script), args);
  await once(other, "message");
}

/** Repeats until it happens once; if it never does, the test times out. */
async function happens(attempt: () => unknown): Promise<boolean> {
  while (!(await attempt())) await nextTurn();
  return true;
}

/** Runs all rounds and counts the outcomes. Only our own refusals are allowed. */
async function rounds(
  work: (round: number) => Promise<void>,
  count = ROUNDS,
): Promise<{ done: number; refused: number }> {
  let done = 0;
  for (let round = 0; round < count; round += 1) {
    try {
      await work(round);
      done += 1;
    } catch (error) {
      if (!(error instanceof CellwrightError)) throw error;
    }
  }
  return { done, refused: count - done };
}

// Without descriptors, other systems have the best effort of `verified-folder.ts` and no such promise.
describe.skipIf(!isLinux)("while a folder is exchanged for a link that leads out, and back,", () => {
  beforeEach(async () => {
    mkdirSync(join(root, "d"));
    symlinkSync(outside, join(root, "l"));
    writeFileSync(join(root, "d", "file"), "inside");
    writeFileSync(join(outside, "file"), "flag");
    writeFileSync(join(outside, "only-outside"), "flag");
    await start("swapper.mjs", root, outside);
  });

  /** A check that would be enough if nothing could change after it. */
  function checked(path: string): string {
    if (lstatSync(join(root, "d")).isSymbolicLink()) throw new Error("refused");
    return join(root, path);
  }
  const naively = (use: () => unknown) => {
    try {
      return use();
    } catch {
      return undefined;
    }
  };

  test("reading never gets out; checking and then opening does", async () => {
    const seen = new Set<string>();
    const { done, refused } = await rounds(async () => {
      seen.add(Buffer.from((await workspace.read("d/file", { maxBytes })).bytes).toString());
    });
    expect([...seen]).toEqual(["inside"]);
    expect(Math.min(done, refused)).toBeGreaterThan(0);
    expect(await happens(() => naively(() => readFileSync(checked("d/file"), "utf8")) === "flag")).toBe(true);
  });

  test("writing never gets out; checking and then opening does", async () => {
    const before = readdirSync(outside);
    const { done, refused } = await rounds(async (round) => {
      await workspace.write(`d/new-${round % 10}`, Buffer.from("written"));
      await workspace.write(`d/folder-${round % 10}/file`, Buffer.from("written"));
      await workspace.write("d/file", Buffer.from("inside"));
    });
    expect(readdirSync(outside)).toEqual(before);
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("flag");
    expect(Math.min(done, refused)).toBeGreaterThan(0);
    const control = () => {
      naively(() => writeFileSync(checked("d/control"), "written"));
      return readdirSync(outside).includes("control");
    };
    expect(await happens(control)).toBe(true);
  });

  test("listing and marking never show what is outside; checking and then opening does", async () => {
    const seen = new Set<string>();
    const { done, refused } = await rounds(async () => {
      for (const { path } of (await workspace.list(".", { recursive: true })).entries) seen.add(path);
      for (const path of (await workspace.mark()).files.keys()) seen.add(path);
      for (const { path } of (await workspace.list("d")).entries) seen.add(path);
    });
    expect([...seen].filter((path) => path.includes("only-outside"))).toEqual([]);
    expect(seen).toContain("d/file");
    expect(Math.min(done, refused)).toBeGreaterThan(0);
    const control = () => naively(() => readdirSync(checked("d")).includes("only-outside"));
    expect(await happens(control)).toBe(true);
  });

  test("removing a file never removes one outside; checking and then removing does", async () => {
    const { done, refused } = await rounds(async () => {
      await workspace.write("d/only-outside", Buffer.from("to be removed"));
      await workspace.remove("d/only-outside");
    });
    expect(readdirSync(outside)).toEqual(["file", "only-outside"]);
    expect(Math.min(done, refused)).toBeGreaterThan(0);
    const control = () => {
      naively(() => unlinkSync(checked("d/only-outside")));
      return !readdirSync(outside).includes("only-outside");
    };
    expect(await happens(control)).toBe(true);
  });
});

describe.skipIf(!isLinux)(
  "while a folder inside of one that is removed is exchanged for a link that leads out,",
  () => {
    const files = Array.from({ length: 20 }, (_, index) => `file-${index}`);
    const doomed = () => join(root, "doomed");

    function prepare(): void {
      const fresh = join(root, "fresh");
      mkdirSync(join(fresh, "d"), { recursive: true });
      for (const file of files) writeFileSync(join(fresh, "d", file), "inside");
      symlinkSync(outside, join(fresh, "l"));
      renameSync(fresh, doomed());
    }

    test("nothing outside is removed; a walk by paths does remove", async () => {
      for (const file of files) writeFileSync(join(outside, file), "flag");
      await start("swapper.mjs", doomed(), outside);
      const { done } = await rounds(async () => {
        prepare();
        await workspace.remove("doomed");
      }, 300);
      expect(readdirSync(outside).sort()).toEqual([...files].sort());
      expect(done).toBeGreaterThan(0);
      for (const left of readdirSync(root)) await workspace.remove(left);

      let attempt = 0;
      const control = async () => {
        prepare();
        await removeByPath(doomed()).catch(() => {});
        attempt += 1;
        renameSync(doomed(), join(base, `left-${attempt}`));
        return readdirSync(outside).length < files.length;
      };
      expect(await happens(control)).toBe(true);
    });

    async function removeByPath(path: string): Promise<void> {
      for (const name of readdirSync(path)) {
        const inside = join(path, name);
        if (lstatSync(inside).isDirectory()) await removeByPath(inside);
        else await unlink(inside);
      }
    }
  },
);

describe("while a file is rewritten and cut short,", () => {
  const fullBytes = 4_000_000;
  const cutBytes = 1_500_000;

  test("a copy of it is the file of one moment, or none; reading it as a stream mixes moments", async () => {
    const path = join(root, "file");
    writeFileSync(path, Buffer.alloc(fullBytes, "A"));
    await start("rewriter.mjs", path, String(fullBytes), String(cutBytes));
    const { done, refused } = await rounds(async () => {
      const { bytes } = await workspace.read("file", { maxBytes });
      expect(isOneMoment(bytes), `${bytes.length} bytes`).toBe(true);
    }, 60);
    expect(Math.min(done, refused)).toBeGreaterThan(0);
    const control = async () => !isOneMoment(Buffer.concat(await createReadStream(path).toArray()));
    expect(await happens(control)).toBe(true);
  });

  test("the error says to wait for the cell", async () => {
    const path = join(root, "file");
    writeFileSync(path, "");
    let busy = true;
    const changing = (async () => {
      for (let count = 0; busy; count += 1) {
        writeFileSync(path, String(count));
        await nextTurn();
      }
    })();
    await expect(workspace.read("file", { maxBytes })).rejects.toMatchObject({ code: "kernel_busy" });
    busy = false;
    await changing;
  });

  /** The other process writes from the front: in the middle of that, the file has new letters, then old ones. */
  function isOneMoment(bytes: Buffer | Uint8Array): boolean {
    const text = Buffer.from(bytes).toString("latin1");
    return /^(A*B*|B*A*)$/.test(text);
  }
});
