import { expect, test } from "vitest";
import { Semaphore } from "../../../src/toolsets/mcp-run-python/semaphore.ts";

const patient = new AbortController().signal;

test("who comes when all semaphore are taken waits, in order", async () => {
  const semaphore = new Semaphore(1);
  const leave = await semaphore.acquire(patient);
  const came: string[] = [];
  const second = semaphore.acquire(patient).then((leaveSecond) => {
    came.push("second");
    return leaveSecond;
  });
  const third = semaphore.acquire(patient).then(() => came.push("third"));
  leave();
  // Giving back twice gives one place.
  leave();
  (await second)();
  await third;
  expect(came).toEqual(["second", "third"]);
});

test("who gives up waiting leaves the place to the next", async () => {
  const semaphore = new Semaphore(1);
  const leave = await semaphore.acquire(patient);
  const impatient = new AbortController();
  const given = semaphore.acquire(impatient.signal);
  const next = semaphore.acquire(patient);
  impatient.abort(new Error("enough"));
  await expect(given).rejects.toThrow("enough");
  leave();
  await next;
});
