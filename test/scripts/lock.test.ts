import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

interface Locked {
  optional?: boolean;
  optionalDependencies?: Record<string, string>;
  resolved?: string;
}

const file = join(import.meta.dirname, "../../package-lock.json");
const packages: Record<string, Locked> = JSON.parse(readFileSync(file, "utf8")).packages;

test("the lock file has the binaries of all platforms, without which npm ci refuses it", () => {
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !packages[`${path}/node_modules/${name}`] && !packages[`node_modules/${name}`],
    ),
  );
  expect(missing, "node scripts/complete-lock.mjs adds them").toEqual([]);
});

test("the lock file names no registry: each machine has its own", () => {
  expect(Object.values(packages).filter(({ resolved }) => resolved?.startsWith("http"))).toEqual([]);
});
