import { EventEmitter } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type WebSocket from "ws";
import { WebSocketChannel } from "../../../src/kernels/remote/server/socket.ts";

const PING_MS = 1_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A channel over connections that open at once and answer no ping. `lives` tells how long each of them lasted. */
async function connectToSilence() {
  const lives: number[] = [];
  const clients: number[] = [];
  const sockets: EventEmitter[] = [];
  const open = (client: number) => {
    clients.push(client);
    const opened = performance.now();
    const socket = Object.assign(new EventEmitter(), {
      ping: () => {},
      terminate: () => {
        lives.push(performance.now() - opened);
        socket.emit("close");
      },
    });
    sockets.push(socket);
    queueMicrotask(() => socket.emit("open"));
    return socket as unknown as WebSocket;
  };
  const channel = new WebSocketChannel({ open, serverName: "test", pingMs: PING_MS });
  await channel.connect(new AbortController().signal);
  return { channel, lives, clients, newest: () => sockets.at(-1) };
}

test("each silent connection in a row is given twice the time, within bounds", async () => {
  const { channel, lives } = await connectToSilence();
  await vi.advanceTimersByTimeAsync(50 * PING_MS);
  expect(lives.map((ms) => ms / PING_MS)).toEqual([2, 4, 8, 16, 16]);
  await channel.close();
});

test("a connection that broke is made again for the same client, one that is given up for another", async () => {
  const { channel, clients, newest } = await connectToSilence();
  newest()?.emit("close");
  await vi.advanceTimersByTimeAsync(0);
  expect(clients).toEqual([0, 0]);
  channel.reconnect();
  await vi.advanceTimersByTimeAsync(0);
  newest()?.emit("close");
  await vi.advanceTimersByTimeAsync(0);
  expect(clients).toEqual([0, 0, 1, 1]);
  await channel.close();
});

test("a sign of life ends that patience", async () => {
  const { channel, lives, newest } = await connectToSilence();
  await vi.advanceTimersByTimeAsync(7 * PING_MS);
  newest()?.emit("pong");
  await vi.advanceTimersByTimeAsync(2 * PING_MS);
  expect(lives.map((ms) => ms / PING_MS)).toEqual([2, 4, 3]);
  await channel.close();
});
