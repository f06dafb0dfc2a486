import { expect, test } from "vitest";
import { JsonText, packValues } from "../src/json-text.ts";

test("written as JSON, it is the value itself, however deep it stands", () => {
  const text = '{"b":[1,null,{"c":"ä"}]}';
  expect(JSON.stringify({ a: new JsonText(text) })).toBe(`{"a":${text}}`);
});

test("a record's lists and objects become text in place, and no prototype is changed", () => {
  const record = JSON.parse('{"__proto__": {"polluted": true}, "list": [1], "text": "t", "none": null}');
  packValues(record);
  packValues(record);
  expect(Object.getOwnPropertyNames(record)).toEqual(["__proto__", "list", "text", "none"]);
  expect(record.polluted).toBeUndefined();
  expect(JSON.stringify(record)).toBe('{"__proto__":{"polluted":true},"list":[1],"text":"t","none":null}');
  expect(record.list).toEqual(new JsonText("[1]"));
});

test.each([[undefined], [null], ["text"], [[{}]]])("%j is no record and stays as it is", (value) => {
  const before = JSON.stringify(value);
  packValues(value);
  expect(JSON.stringify(value)).toBe(before);
});
