import { expect, test } from "vitest";
import { patienceMs } from "../../src/tools/follow.ts";

test.each([
  [undefined, undefined, 45_000],
  [undefined, "60000", 45_000],
  [undefined, "30000", 28_000],
  [undefined, "11000", 10_000],
  [undefined, "5", 10_000],
  [undefined, "100000000", 45_000],
  [120, undefined, 120_000],
  [120, "60000", 58_000],
  [5, "60000", 5_000],
  [0, "60000", 0],
  [0.5, undefined, 500],
  [604_800, undefined, 604_800_000],
  [604_800, "99999999999999", 604_800_000],
  [undefined, "", 45_000],
  [undefined, "0", 45_000],
  [undefined, "soon", 45_000],
  [undefined, "-5000", 45_000],
  [undefined, "30s", 45_000],
])("wait_s %s with MCP_TOOL_TIMEOUT=%s waits %i ms", (waitSeconds, timeout, expected) => {
  expect(patienceMs(waitSeconds, { MCP_TOOL_TIMEOUT: timeout })).toBe(expected);
});
