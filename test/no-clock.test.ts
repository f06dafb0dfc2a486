import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exceptions } from "./support/clock-exceptions.ts";

/**
 * A test that sleeps or measures time fails on a busy machine. Instead, it waits for an event (`support/until.ts`), opens a
 * gate in the cell, or uses a fake clock; promises in seconds are measured in `bench/`.
 */
const clocks: Record<string, RegExp> = {
  "a timer": /\bset(Timeout|Interval)\(|\bset(Timeout|Interval) as\b|Atomics\.wait\(/,
  "a sleep": /(?<![\w.'"])(sleep|delay|pause)\(/,
  "a clock": /\bperformance\.now\(|\bhrtime\b|Date\.now\(\) *[-+<>]|[-<>] *Date\.now\(\)/,
  "a measured time": /(Ms|elapsed|duration_ms|\.at)\)*\.toBe(Less|Greater)Than/i,
};

/** In a cell: a sleep that is never waited for takes a minute or more, and polling for a gate a tenth of a second or less. */
const pythonSleep = /\bsleep\(([\d.]+)\)/g;
const isWaitedOut = (seconds: number) => seconds > 0.1 && seconds < 60;

const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" })
  .filter((path) => /\.(ts|mjs)$/.test(path) && path !== "no-clock.test.ts" && path !== "support/clock-exceptions.ts")
  .sort();

interface Use {
  path: string;
  place: string;
  what: string;
}

const uses: Use[] = files.flatMap((path) =>
  readFileSync(join(import.meta.dirname, path), "utf8")
    .split("\n")
    .flatMap((line, index) =>
      clocksIn(line).map((what) => ({ path, place: `${path}:${index + 1} ${line.trim()}`, what })),
    ),
);

function clocksIn(line: string): string[] {
  const named = Object.keys(clocks).filter((name) => clocks[name]?.test(line));
  const sleeps = [...line.matchAll(pythonSleep)].filter(([, seconds]) => isWaitedOut(Number(seconds)));
  return sleeps.length > 0 ? [...named, "a sleep in a cell"] : named;
}

const isExcepted = ({ path, place }: Use, { where, line }: (typeof exceptions)[number]) =>
  (where.endsWith("/") ? path.startsWith(where) : path === where) && (line === undefined || place.includes(line));

test("no test sleeps or judges by the clock, but for exceptions that say why", () => {
  const clocked = uses.filter((use) => !exceptions.some((exception) => isExcepted(use, exception)));
  expect(clocked.map(({ what, place }) => `${what}: ${place}`)).toEqual([]);
});

test("every exception is still needed", () => {
  const stale = exceptions.filter((exception) => !uses.some((use) => isExcepted(use, exception)));
  expect(stale).toEqual([]);
});
