import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Watchdog } from "../../../src/kernels/wasm/watchdog.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

test("a kernel that answers is checked, and not ended, while cells follow in quick succession", async () => {
  const { watchdog, ping, kill } = watched(() => answer());
  const answer = () => watchdog.heard({ alive: true, rssBytes: 0, cpuMs: 0 });
  for (let cell = 0; cell < 6_000; cell += 1) {
    watchdog.cellBegins();
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(ping.mock.calls.length).toBeGreaterThan(100);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(kill).not.toHaveBeenCalled();
});

test("a kernel that answers no ping is ended, once", async () => {
  const { kill } = watched(() => {});
  await vi.advanceTimersByTimeAsync(20_000);
  expect(kill).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(kill.mock.calls).toEqual([[expect.stringContaining("no longer answers")]]);
});

function watched(ping: () => void) {
  const kill = vi.fn<(reason: string) => void>();
  const pings = vi.fn(ping);
  const watchdog = new Watchdog({
    pid: process.pid,
    memoryMb: 100_000,
    diskMb: 100,
    folders: [],
    isBusy: () => true,
    isHeldBack: () => false,
    ping: pings,
    kill,
  });
  void watchdog.start();
  return { watchdog, ping: pings, kill };
}
