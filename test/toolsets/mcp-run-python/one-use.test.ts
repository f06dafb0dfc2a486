import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { defaultOptions } from "../../../src/options/options.ts";
import { OneUse } from "../../../src/toolsets/mcp-run-python/one-use.ts";
import { startEngine } from "../../support/engine.ts";

const { signal } = new AbortController();

test("sessions for one use are gone afterwards with their files, and wait where others are refused", async () => {
  const { sessions, store } = await startEngine({ maxSessions: 1 });
  const context = { sessions, owner: "ann", options: { ...defaultOptions(), maxSessions: 1 } };
  const oneUse = new OneUse();
  const folders: string[] = [];
  const use = (code: string) =>
    oneUse.run(context, signal, async (session) => {
      folders.push(await store.folder(session.id));
      return (await session.execute(code).finished).status;
    });
  expect(await Promise.all([use("print a"), use("print b"), use("error oops")])).toEqual(["ok", "ok", "error"]);
  await expect.poll(() => folders.some((folder) => existsSync(folder))).toBe(false);
  expect(folders).toHaveLength(3);
  expect(await sessions.list("ann")).toEqual([]);
});

test("those that are in use at the end leave nothing either", async () => {
  const { sessions, store } = await startEngine();
  let folder = "";
  const context = { sessions, owner: "ann", options: defaultOptions() };
  const using = new OneUse().run(context, signal, async (session) => {
    folder = await store.folder(session.id);
    const run = session.execute("sleep 100000");
    void run.finished.catch(() => {});
    await expect.poll(() => run.phase).toBe("running");
    void sessions.dispose();
    return (await run.finished).status;
  });
  expect(await using).toBe("interrupted");
  await sessions.dispose();
  expect(existsSync(folder)).toBe(false);
});
