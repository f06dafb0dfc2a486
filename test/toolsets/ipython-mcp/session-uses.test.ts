import { expect, test } from "vitest";
import { SessionUses } from "../../../src/toolsets/ipython-mcp/session-uses.ts";
import { startEngine } from "../../support/engine.ts";

test("cells and time are counted from a session's beginning, and again from its reset", async () => {
  const { sessions, clock } = await startEngine();
  const uses = new SessionUses(() => clock.ms);
  const session = await sessions.create("ann");
  uses.restart(session);
  for (let cell = 0; cell < 2; cell += 1) uses.count(session);
  clock.ms += 1_000;
  expect(uses.of(session)).toEqual({ uptime_s: 1, exec_count: 2 });
  uses.restart(session);
  expect(uses.of(session)).toEqual({ uptime_s: 0, exec_count: 0 });
});
