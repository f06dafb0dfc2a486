import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { holdFolder } from "../../../src/folders/held-folder.ts";
import { verifyFolder } from "../../../src/folders/verified-folder.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { testPlanted } from "../../contracts/planted.ts";
import { testWorkspace } from "../../contracts/workspace.ts";

const isLinux = process.platform === "linux";

const ways = [
  ...(isLinux ? [{ name: "a local workspace by descriptors", openFolder: holdFolder }] : []),
  { name: "a local workspace by paths", openFolder: verifyFolder },
];

for (const { name, openFolder } of ways) {
  testWorkspace({
    name,
    async open() {
      const base = mkdtempSync(join(tmpdir(), "cellwright-ws-"));
      mkdirSync(join(base, "root"));
      return {
        workspace: openLocalWorkspace(join(base, "root"), { openFolder }),
        close: async () => rmSync(base, { recursive: true, force: true }),
      };
    },
  });

  testPlanted({
    name,
    open: (root) => ({
      workspace: openLocalWorkspace(root, { openFolder }),
      openFiles: () => readdirSync("/proc/self/fd").length,
      close: async () => {},
    }),
  });
}

test("a workspace is looked through up to 10 000 entries, and says when there are more", async () => {
  const root = mkdtempSync(join(tmpdir(), "cellwright-ws-"));
  const inside = (...names: string[]) => join(root, ...names);
  const workspace = openLocalWorkspace(root);
  mkdirSync(inside("many"));
  for (let count = 0; count < 9_998; count += 1) writeFileSync(inside("many", `f${count}`), "");
  const mark = await workspace.mark();
  expect([mark.complete, mark.files.size]).toEqual([true, 9_998]);
  writeFileSync(inside("last"), "");
  expect((await workspace.changedSince(mark)).complete).toBe(true);
  writeFileSync(inside("one too many"), "");
  const now = await workspace.changedSince(mark);
  expect(now.complete).toBe(false);
  expect(now.changes.filter(({ change }) => change === "deleted")).toEqual([]);
  const late = await workspace.mark();
  expect((await workspace.changedSince(late)).changes).toEqual([]);
  const listed = await workspace.list(".", { recursive: true, limit: 10 });
  expect([listed.entries.length, listed.more]).toEqual([10, true]);
  await workspace.remove("many");
  rmSync(root, { recursive: true });
});
