import { describe, expect, test } from "vitest";
import { parsePorts, pool } from "../../src/commands/pool.ts";
import { defaultOptions } from "../../src/options/options.ts";

describe("--ports", () => {
  test.each([
    ["18901", [18901]],
    ["18901-18904", [18901, 18902, 18903, 18904]],
    ["1, 3-4 ,65535", [1, 3, 4, 65535]],
  ])("%s", (text, ports) => {
    expect(parsePorts(text)).toEqual(ports);
  });

  test.each(["", "x", "0", "65536", "5-3", "1-", "-1", "1,,2", "1-2-3", "1.5", "1-65535", "1,1", "1-3,2"])(
    "refuses %s with a sentence",
    (text) => {
      expect(() => parsePorts(text)).toThrow(/^--ports: /);
    },
  );
});

test("a pool of what stands in front of a pool is refused", async () => {
  await expect(pool({ ...defaultOptions(), kernel: "pool" }, { args: ["pool"] })).rejects.toThrow("--kernel pool");
});
