import { describe, expect, test } from "vitest";
import { createMessage, encodeFrames, parentOf } from "../../../src/kernels/protocol/message.ts";
import { Allowance, MessageGate } from "../../../src/kernels/protocol/message-gate.ts";

const MB = 1_000_000;

function open() {
  const clock = { ms: 0 };
  const gate = new MessageGate(() => clock.ms);
  gate.judge = (id) => (id === "runs" ? "asked" : id === "over" ? "late" : "unknown");
  const send = (msg_id: string, bytes: number) => gate.admit({ parent: { msg_id }, bytes });
  return { clock, gate, send };
}

test("an allowance comes back with time, up to what it was", () => {
  const clock = { ms: 0 };
  const allowance = new Allowance({ capacityBytes: 100, bytesPerSecond: 10 }, () => clock.ms);
  expect(allowance.spend(150)).toBe(-50);
  clock.ms = 3_000;
  expect(allowance.spend(0)).toBe(-20);
  clock.ms = 60_000;
  expect(allowance.spend(30)).toBe(70);
});

describe("messages", () => {
  test("of the cell that runs are read, up to far more than is kept of it; its end in any case", () => {
    const { send } = open();
    for (let count = 0; count < 12; count += 1) expect(send("runs", 10 * MB)).toBe("take");
    expect(send("runs", 10 * MB)).toBe("drop");
    for (let count = 0; count < 2_000; count += 1) expect(send("runs", 200_000)).toBe("take");
    expect(send("runs", 300)).toBe("take");
  });

  test("of a cell that is over are read as far as threads print, then dropped, then read again", () => {
    const { send, clock } = open();
    for (let count = 0; count < 600; count += 1) expect(send("over", 200_000)).toBe("take");
    for (let count = 0; count < 100; count += 1) send("over", 200_000);
    expect(send("over", 200_000)).toBe("drop");
    clock.ms = 5_000;
    expect(send("over", 200_000)).toBe("take");
    for (; clock.ms < 3_600_000; clock.ms += 100) expect(send("over", 200_000)).toBe("take");
  });

  test("that are large and of a cell that is over are few", () => {
    const { send, clock } = open();
    expect(send("over", 10 * MB)).toBe("take");
    expect(send("over", 10 * MB)).toBe("drop");
    expect(send("over", 200_000)).toBe("take");
    clock.ms = 60_000;
    expect(send("over", 10 * MB)).toBe("take");
  });

  test("of nothing known are not read, unless they are as small as what a kernel says of itself", () => {
    const { send } = open();
    expect(send("elsewhere", 300)).toBe("take");
    expect(send("elsewhere", 100_000)).toBe("drop");
  });

  test.each(["runs", "over", "elsewhere"])("end the kernel that floods with them: %s", (parent) => {
    const { send } = open();
    const verdicts = Array.from({ length: 40 }, () => send(parent, 34 * MB));
    expect(verdicts.at(-1)).toBe("end");
  });

  test("many small unsolicited ones are a flood, too", () => {
    const { send } = open();
    let count = 0;
    while (send("elsewhere", 100) === "take") count += 1;
    expect(count).toBeLessThan(300_000);
  });
});

test("whom a message answers is known without its content and its signature", () => {
  const message = createMessage("iopub", "display_data", { data: {} }, { session: "s", parent: { msg_id: "cell" } });
  const frames = encodeFrames(message, "key");
  frames[1] = Buffer.from("no signature");
  frames[5] = Buffer.from("no JSON");
  expect(parentOf(frames)).toEqual({ msg_id: "cell" });
  expect(parentOf([Buffer.from("<IDS|MSG>")])).toBeUndefined();
  frames[3] = Buffer.from(JSON.stringify({ msg_id: "x".repeat(20_000) }));
  expect(parentOf(frames)).toBeUndefined();
});
