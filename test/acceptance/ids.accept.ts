import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** The ids of all cases, per replaced system and across them: `S0-01` to `S0-35`, and so on. */
const cases: Record<string, number> = { S0: 35, S1: 61, S2: 35, S3: 35, S4: 36, X: 48 };

test("every case has a test whose name begins with its id", () => {
  const sources = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".accept.ts"))
    .map((name) => readFileSync(join(import.meta.dirname, name), "utf8"));
  const titles = sources.flatMap(
    (source) => source.match(/\btest(?:\.\w+\([^)]*\))?\(\s*["'`](?:S\d|X)-[^"'`]*/g) ?? [],
  );
  const tested = new Set(
    titles.flatMap((title) => /["'`]((?:(?:S\d|X)-\d+(?:, )?)+)/.exec(title)?.[1]?.split(", ") ?? []),
  );
  const wanted = Object.entries(cases).flatMap(([system, count]) =>
    Array.from({ length: count }, (_, index) => `${system}-${String(index + 1).padStart(2, "0")}`),
  );
  expect(wanted.filter((id) => !tested.has(id))).toEqual([]);
});
