import { expect, onTestFinished, test, vi } from "vitest";
import { Sessions } from "../../../src/engine/sessions/sessions.ts";
import { createLog } from "../../../src/log.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import type { Workspace } from "../../../src/workspace/workspace.ts";
import { createFakeProvider } from "../../support/fake-kernel.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

/** A session whose files are on another machine: it has no local path. */
async function start() {
  const provider = createFakeProvider();
  const store = openMemoryStore();
  const marked = vi.fn();
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: (folder): Workspace => {
      const { hostPath: _, ...local } = openLocalWorkspace(folder);
      return {
        ...local,
        mark: () => {
          marked();
          return local.mark();
        },
      };
    },
    log: createLog("silent"),
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 3,
    warm: 0,
  });
  onTestFinished(() => sessions.dispose());
  return { session: await sessions.create("ann"), provider, marked };
}

test("a kernel that turns out to be gone is replaced, and the cell runs in the next one", async () => {
  const { session, provider } = await start();
  await session.execute("print one").finished;
  const [first] = provider.kernels;
  Object.assign(first ?? {}, {
    settled: async () => {
      first?.die("its server was restarted.");
      await first?.closed;
    },
  });
  const after = await session.execute("count").finished;
  expect(after).toMatchObject({ status: "ok", outputs: [{ text: "1\n" }] });
  expect(after.notices.join()).toContain("its server was restarted");
  expect(first?.began).toEqual(["print one"]);
});

test("a cell that is stopped while its kernel cannot be reached never ran", async () => {
  const { session, provider } = await start();
  await session.execute("print one").finished;
  const waiting = new Promise<void>((resolve) => {
    Object.assign(provider.kernels[0] ?? {}, {
      settled: (signal: AbortSignal) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          resolve();
        }),
    });
  });
  const run = session.execute("print two");
  await waiting;
  await session.interrupt();
  expect(await run.finished).toMatchObject({ status: "interrupted", outputs: [] });
  expect(provider.kernels[0]?.began).toEqual(["print one"]);
});

test("remote files are scanned once per cell, and again for another kernel", async () => {
  const { session, provider, marked } = await start();
  for (const code of ["print one", "print two", "print three"]) await session.execute(code).finished;
  expect(marked).toHaveBeenCalledTimes(1);
  provider.kernels[0]?.die("it was ended.");
  await session.execute("print four").finished;
  expect(marked).toHaveBeenCalledTimes(2);
  session.filesChanged(["a.txt"]);
  await session.execute("print five").finished;
  expect(marked).toHaveBeenCalledTimes(3);
});
