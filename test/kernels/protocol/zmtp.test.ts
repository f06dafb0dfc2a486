import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { ZmtpSocket } from "../../../src/kernels/protocol/zmtp.ts";

const folder = mkdtempSync(join(tmpdir(), "cw-zmtp-"));
const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
  rmSync(folder, { recursive: true, force: true });
});

test("a link in place of the kernel's socket is not followed, and the socket is found when it is there", async () => {
  const path = join(folder, "kernel");
  let strangers = 0;
  await listening(join(folder, "foreign"), () => {
    strangers += 1;
  });
  symlinkSync(join(folder, "foreign"), path);
  const socket = new ZmtpSocket({
    path,
    kind: "DEALER",
    maxMessageBytes: 1_000,
    onMessage: () => {},
    onBroken: () => {},
  });
  cleanUps.push(() => socket.close());
  rmSync(path);
  await new Promise<void>((resolve) => void listening(path, resolve));
  expect(strangers).toBe(0);
});

async function listening(path: string, onConnection: () => void): Promise<Server> {
  const server = createServer((connection) => {
    connection.on("error", () => {});
    cleanUps.push(() => connection.destroy());
    onConnection();
  });
  cleanUps.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return server;
}
