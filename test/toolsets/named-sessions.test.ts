import { expect, onTestFinished, test } from "vitest";
import { NamedSessions } from "../../src/toolsets/named-sessions.ts";
import { startEngine } from "../support/engine.ts";

test("are started once, for callers at the same time, and are this process's own", async () => {
  const named = new NamedSessions();
  const { sessions, open } = await startEngine();
  const [one, two] = await Promise.all(["", ""].map((name) => named.getOrCreate({ sessions, owner: "ann" }, name)));
  expect(one).toBe(two);
  expect((await named.getOrCreate({ sessions, owner: "bob" }, "")).id).not.toBe(one?.id);
  const other = open();
  onTestFinished(() => other.dispose());
  expect(await named.find({ sessions: other, owner: "ann" }, "")).toBeUndefined();
  expect((await named.getOrCreate({ sessions: other, owner: "ann" }, "")).id).not.toBe(one?.id);
});

test("are not found after their lifetime, and start again", async () => {
  const named = new NamedSessions();
  const { sessions, clock } = await startEngine({ guest: { forgetsIdleSessions: true } });
  const context = { sessions, owner: "ann" };
  const first = await named.getOrCreate(context, "by name");
  expect(await named.find(context, "by name")).toBe(first);
  clock.ms += 31 * 60_000;
  expect(await named.find(context, "by name")).toBeUndefined();
  expect((await named.getOrCreate(context, "by name")).id).not.toBe(first.id);
});
