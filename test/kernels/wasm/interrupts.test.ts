import { expect, test } from "vitest";
import { InterruptReceiver, InterruptSender } from "../../../src/kernels/wasm/deno/interrupts.ts";

function interrupts() {
  const sender = new InterruptSender();
  return { sender, receiver: new InterruptReceiver(sender.shared) };
}

/** What Pyodide does every few instructions; `between` happens between its two steps. */
function poll(receiver: InterruptReceiver, between = () => {}): number {
  const signal = receiver[0];
  between();
  receiver[0] = 0;
  return signal;
}

test("an interrupt is heard once", () => {
  const { sender, receiver } = interrupts();
  expect(poll(receiver)).toBe(0);
  sender.send(1);
  expect(poll(receiver)).toBe(2);
  expect(poll(receiver)).toBe(0);
});

test("one that comes while Python looks for one is heard at its next look", () => {
  const { sender, receiver } = interrupts();
  expect(poll(receiver, () => sender.send(1))).toBe(0);
  expect(poll(receiver, () => sender.send(1))).toBe(2);
  expect(poll(receiver)).toBe(2);
  expect(poll(receiver)).toBe(0);
});

test("looking without hearing it leaves it there", () => {
  const { sender, receiver } = interrupts();
  sender.send(1);
  expect([receiver[0], receiver[0]]).toEqual([2, 2]);
  expect([receiver.take(), receiver.take()]).toEqual([true, false]);
});

test("one for a cell that is over is not heard in the next, one for the next is", () => {
  const { sender, receiver } = interrupts();
  sender.send(1);
  const beforeNext = sender.sent;
  receiver.forget(beforeNext);
  expect(receiver.take()).toBe(false);
  sender.send(1);
  receiver.forget(beforeNext);
  expect(receiver.take()).toBe(true);
});

test("one that could not be delivered is heard again", () => {
  const { sender, receiver } = interrupts();
  sender.send(1);
  expect(poll(receiver)).toBe(2);
  expect(receiver.heard).toBe(1);
  receiver.repeat();
  expect([poll(receiver), poll(receiver)]).toEqual([2, 0]);
});
