import { expect, test } from "vitest";
import { createHandProvider } from "../support/hand-kernel.ts";
import { createWorld } from "./support.ts";

async function startSession() {
  const world = createWorld({ provider: createHandProvider() });
  world.provider.end();
  const { session_id } = (await world.call("execute_code", { code: "" })).execution;
  return { ...world, session_id };
}

test("list_variables shows a table of what there is", async () => {
  const { call, session_id, provider } = await startSession();
  expect((await call("list_variables", { session_id })).text).toBe(`Session ${session_id} has no variables.`);
  provider.variables = [
    { name: "df", type: "DataFrame", summary: "a  b\n1  2", shape: [150, 4], sizeBytes: 4_928 },
    { name: "x", type: "int", summary: "7" },
    { name: "words", type: "list", summary: "['a', 'b']", length: 2 },
  ];
  expect((await call("list_variables", { session_id })).text.split("\n")).toEqual([
    "name   type       shape    size    value",
    "df     DataFrame  150 × 4  4.9 kB  a  b 1  2",
    "x      int                         7",
    "words  list       2                ['a', 'b']",
  ]);
});

test("inspect_variable shows one in detail", async () => {
  const { call, session_id, provider } = await startSession();
  provider.variables = [
    {
      name: "df",
      type: "DataFrame",
      summary: "   a  b\n0  1  2",
      shape: [150, 2],
      sizeBytes: 4_928,
      members: ["a: int64", "b: int64"],
    },
  ];
  expect((await call("inspect_variable", { session_id, name: "df" })).text).toBe(
    "df: DataFrame · 150 × 2 · 4.9 kB\na: int64, b: int64\n   a  b\n0  1  2",
  );
  expect(await call("inspect_variable", { session_id, name: "nope" })).toMatchObject({ code: "variable_not_found" });
});

test("a session without a kernel says so", async () => {
  const { call, sessions } = createWorld();
  const { id } = await sessions.create("local");
  expect((await call("list_variables", { session_id: id })).text).toBe(
    `Session ${id} has no running Python kernel, so no variables.`,
  );
});
