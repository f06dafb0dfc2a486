import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { SessionProxies } from "../../../src/isolation/network/session-proxies.ts";
import { createLog } from "../../../src/log.ts";

const log = createLog("silent");

function makeSlot(sessionId: string, folder = mkdtempSync(join(tmpdir(), "cellwright-proxies-"))) {
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runDir = join(folder, sessionId, "run");
  mkdirSync(runDir, { recursive: true });
  return { sessionId, runDir };
}

/** What a proxy answers for a host that is not allowed, or why it does not answer. */
function ask(socketPath: string): Promise<number | string> {
  return new Promise((resolve) => {
    const asking = request({ socketPath, path: "http://nowhere.example/" }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asking.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "")).end();
  });
}

test("kernels of a session share its proxy, which goes with the last of them; sessions have one each", async () => {
  const proxies = new SessionProxies({ allow: ["example.org"], log });
  onTestFinished(() => proxies.dispose());
  const [one, other] = [makeSlot("one"), makeSlot("other")];
  const socket = join(proxies.folderOf(one), "socket");
  expect(proxies.folderOf(one)).not.toBe(proxies.folderOf(other));
  const [python, bash] = await Promise.all([proxies.hold(one), proxies.hold(one)]);
  await proxies.hold(other);
  expect(await ask(socket)).toBe(403);
  expect(statSync(proxies.folderOf(one)).mode & 0o777).toBe(0o700);
  await python.release();
  await python.release();
  expect(await ask(socket)).toBe(403);
  await bash.release();
  expect(existsSync(proxies.folderOf(one))).toBe(false);
  expect(await ask(join(proxies.folderOf(other), "socket"))).toBe(403);
});

test("a session that has none any more gets one again, also while the last one is being closed", async () => {
  const proxies = new SessionProxies({ allow: ["example.org"], log });
  onTestFinished(() => proxies.dispose());
  const slot = makeSlot("one");
  for (let turn = 0; turn < 5; turn += 1) {
    const held = await proxies.hold(slot);
    const closing = held.release();
    const again = await proxies.hold(slot);
    await closing;
    expect(await ask(join(proxies.folderOf(slot), "socket"))).toBe(403);
    await again.release();
  }
});

test("the next server serves the same folder, if it has the same rules", async () => {
  const slot = makeSlot("one");
  const crashed = new SessionProxies({ allow: ["example.org"], log });
  await crashed.hold(slot);
  const folder = crashed.folderOf(slot);
  const { ino } = statSync(folder);
  await crashed.dispose();
  expect(await ask(join(folder, "socket"))).not.toBe(403);
  const next = new SessionProxies({ allow: ["example.org"], log });
  onTestFinished(() => next.dispose());
  await next.hold(slot);
  // A jail has mounted the folder itself.
  expect(statSync(folder).ino).toBe(ino);
  expect(await ask(join(folder, "socket"))).toBe(403);
  expect(new SessionProxies({ allow: ["example.net"], log }).folderOf(slot)).not.toBe(folder);
});

test("a path that is longer than the address of a socket is no obstacle", async () => {
  const proxies = new SessionProxies({ allow: ["example.org"], log });
  onTestFinished(() => proxies.dispose());
  const slot = makeSlot("x".repeat(150));
  await proxies.hold(slot);
  expect(existsSync(join(proxies.folderOf(slot), "socket"))).toBe(true);
});
