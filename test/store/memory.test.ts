import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { testStore } from "../contracts/store.ts";
import { openMemoryStore } from "../support/memory-store.ts";

testStore({ name: "the memory store", open: async () => openMemoryStore() });

test("nothing is left on disk when the memory store is disposed of", async () => {
  const store = openMemoryStore();
  const folder = await store.folder("s1");
  expect(existsSync(folder)).toBe(true);
  await store.dispose();
  expect(existsSync(folder)).toBe(false);
});
