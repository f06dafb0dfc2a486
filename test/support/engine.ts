import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Sessions, type SessionsConfig } from "../../src/engine/sessions/sessions.ts";
import { createLog } from "../../src/log.ts";
import { openDiskStore } from "../../src/store/disk.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import { createFakeProvider } from "./fake-kernel.ts";

/** Sessions on fake kernels with a fake clock and a store on disk. `open`: the same again, as after a restart. */
export async function startEngine(config: Partial<SessionsConfig> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-engine-"));
  const log = createLog("silent");
  const store = await openDiskStore({ dataDir, log });
  const clock = { ms: Date.now() };
  const open = () =>
    new Sessions({
      provider: createFakeProvider(),
      store,
      openWorkspace: openLocalWorkspace,
      log,
      defaultTimeoutMs: 10_000,
      ttlMs: 30 * 60_000,
      keepDays: 7,
      maxSessions: 3,
      warm: 0,
      now: () => clock.ms,
      ...config,
    });
  const sessions = open();
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return { sessions, store, open, clock, folder: (id: string) => join(dataDir, "sessions", id) };
}
