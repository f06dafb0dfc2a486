import { expect, test } from "vitest";
import { Semaphore } from "../src/semaphore.ts";

const patient = new AbortController().signal;

test("callers wait in order while all permits are taken", async () => {
  const semaphore = new Semaphore(1);
  const leave = await semaphore.acquire(patient);
  const came: string[] = [];
  const second = semaphore.acquire(patient).then((leaveSecond) => {
    came.push("second");
    return leaveSecond;
  });
  const third = semaphore.acquire(patient).then(() => came.push("third"));
  leave();
  // Releasing twice frees one permit.
  leave();
  (await second)();
  await third;
  expect(came).toEqual(["second", "third"]);
});

test("a caller that stops waiting leaves its place to the next", async () => {
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
