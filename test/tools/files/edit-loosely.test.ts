import { describe, expect, test } from "vitest";
import { editLoosely } from "../../../src/tools/files/edit-loosely.ts";

const edit = (text: string, oldText: string, newText: string, replaceAll = false) =>
  editLoosely(text, { oldText, newText, replaceAll });

describe("an exact match", () => {
  test.each([
    ["a\nb\nc", "b", "X", "a\nX\nc"],
    ["a\nb\nc", "a\nb", "X", "X\nc"],
    ["é😀ü", "😀", "", "éü"],
    ["no end", "end", "END", "no END"],
    ["a\r\nb\r\n", "b", "x", "a\r\nx\r\n"],
    ["x = foo  \n", "foo", "bar", "x = bar  \n"],
    ["foo  bar\n", "foo", "x", "x  bar\n"],
  ])("%j: %j → %j", (text, oldText, newText, expected) => {
    expect(edit(text, oldText, newText)).toEqual({ text: expected, replaced: 1 });
  });

  test("with only blanks after it on its line takes the line", () => {
    expect(edit("hello world   \n", "hello world", "hi")).toEqual({ text: "hi\n", replaced: 1 });
    expect(edit("  hello world\t\r\nx", "hello world", "hi")).toEqual({ text: "hi\r\nx", replaced: 1 });
    expect(edit("a\nb  ", "a\nb", "c")).toEqual({ text: "c", replaced: 1 });
  });

  test("that is there several times is not guessed at", () => {
    expect(edit("a a a", "a", "b")).toEqual({ found: 3 });
    expect(edit("x = foo  \ny = foo\n", "foo", "bar")).toEqual({ found: 2 });
    expect(edit("foo  \nfoo\n", "foo", "bar")).toEqual({ found: 2 });
  });

  test("is replaced everywhere, from the left", () => {
    expect(edit("a a a", "a", "b", true)).toEqual({ text: "b b b", replaced: 3 });
    expect(edit("aaa", "aa", "X", true)).toEqual({ text: "Xa", replaced: 1 });
  });

  test("replaced by itself changes nothing", () => {
    expect(edit("a  \nb", "a", "a")).toEqual({ text: "a  \nb", replaced: 1 });
  });
});

describe("lines with other blanks around them", () => {
  test.each([
    ["  if x:\n    go()\nend\n", "if x:\n  go()", "X", "X\nend\n"],
    ["a  \nb\t\nc\n", "a\nb", "X\nY", "X\nY\nc\n"],
    ["a  \r\nb\r\nc\r\n", "a\nb", "X\nY", "X\r\nY\r\nc\r\n"],
    ["  a\n  b\nc", "a\nb\n", "X\n", "X\nc"],
    ["\tone\n", " one ", "two", "two\n"],
  ])("%j: %j → %j", (text, oldText, newText, expected) => {
    expect(edit(text, oldText, newText)).toEqual({ text: expected, replaced: 1 });
  });

  test("are distinguished by their relative indentation", () => {
    const text = "if x:\n    go()\nif x:\ngo()\n";
    expect(edit(text, "  if x:\n      go()", "X")).toEqual({ text: "X\nif x:\ngo()\n", replaced: 1 });
    expect(edit(text, "  if x:\n  go() ", "X")).toEqual({ text: "if x:\n    go()\nX\n", replaced: 1 });
  });

  test("that cannot be distinguished are not guessed", () => {
    expect(edit("  a\n b\n\ta\n b\n", "a \n  b", "X")).toEqual({ found: 2 });
    expect(edit("\ta\n\ta\n", " a ", "X", true)).toEqual({ text: "X\nX\n", replaced: 2 });
  });

  test("are not found where there are only blanks", () => {
    expect(edit("\n\nx", "  \n ", "X")).toEqual({ found: 0 });
    expect(edit("abc", "xyz", "X")).toEqual({ found: 0 });
  });
});
