import { describe, expect, test } from "vitest";
import { parseMessage } from "../../src/mcp/json.ts";

const parse = (text: string) => parseMessage(Buffer.from(text));

describe("a message", () => {
  test.each(['{"a":[1,"]["]}', '"\\\\"', '"\\"[["', " 1 ", "null", '{"\\u005b":"é\u2028\\ud800"}'])(
    "%s is read",
    (text) => {
      expect(parse(text)).toEqual(JSON.parse(text));
    },
  );

  test("may begin with a BOM", () => {
    expect(parse("\ufeff[1]")).toEqual([1]);
  });

  test.each(["", "{", '"', "[1,]", "\u0000", "'a'", "[1] [2]"])("%j is refused as no JSON", (text) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: -32700 }));
  });

  test("in broken UTF-8 is refused", () => {
    expect(() => parseMessage(Buffer.from([0x22, 0xc3, 0x22]))).toThrow(expect.objectContaining({ code: -32700 }));
  });

  test("may nest, but not without end", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(parse(nested(200))).toBeDefined();
    expect(() => parse(nested(201))).toThrow(expect.objectContaining({ code: -32600 }));
    expect(() => parse(nested(32_000_000))).toThrow(expect.objectContaining({ code: -32600 }));
    expect(parse(`"${"[".repeat(500)}"`)).toBeDefined();
    expect(parse(`[${"[],".repeat(500)}[]]`)).toHaveLength(501);
  });

  test("may hold many values, but not so many that they fill the memory", () => {
    expect(parse(`[${"1,".repeat(1_000_000)}1]`)).toHaveLength(1_000_001);
    expect(() => parse(`[${"{},".repeat(6_000_000)}1]`)).toThrow(expect.objectContaining({ code: -32600 }));
  });
});
