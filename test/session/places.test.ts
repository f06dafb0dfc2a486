import { expect, test } from "vitest";
import { Places } from "../../src/session/places.ts";

const patient = new AbortController().signal;

test("who comes when all places are taken waits, in order", async () => {
  const places = new Places(1);
  const leave = await places.take(patient);
  const came: string[] = [];
  const second = places.take(patient).then((leaveSecond) => {
    came.push("second");
    return leaveSecond;
  });
  const third = places.take(patient).then(() => came.push("third"));
  leave();
  // Giving back twice gives one place.
  leave();
  (await second)();
  await third;
  expect(came).toEqual(["second", "third"]);
});

test("who gives up waiting leaves the place to the next", async () => {
  const places = new Places(1);
  const leave = await places.take(patient);
  const impatient = new AbortController();
  const given = places.take(impatient.signal);
  const next = places.take(patient);
  impatient.abort(new Error("enough"));
  await expect(given).rejects.toThrow("enough");
  leave();
  await next;
});
