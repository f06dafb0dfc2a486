/** The combinations of tier and launcher. A suite runs on each; those that do not work here are skipped by name. */

import { tryIsolation } from "../../src/isolation/isolation.ts";
import type { Isolation, Launcher, Tier } from "../../src/isolation/jail.ts";
import { describeFound } from "./requirements.ts";

const ways: { name: string; tier: Tier; kind: Launcher["kind"] }[] = [
  { name: "namespaces by bubblewrap", tier: "namespaces", kind: "bubblewrap" },
  { name: "namespaces by our launcher", tier: "namespaces", kind: "python" },
  { name: "Landlock", tier: "landlock", kind: "python" },
];

const found = await Promise.all(
  ways.map(async (way) => ({ ...way, isolation: await tryIsolation(way.tier, way.kind) })),
);

export function describeWithIsolations(
  title: string,
  suite: (isolation: Isolation, name: string) => void,
  tiers: Tier[] = ["namespaces", "landlock"],
): void {
  for (const { name, tier, isolation } of found) {
    if (!tiers.includes(tier)) continue;
    const result = "obstacle" in isolation ? { reason: isolation.obstacle } : { found: isolation };
    describeFound<Isolation>(name, result, { title: `${title} (${name})`, suite: (working) => suite(working, name) });
  }
}

/** Once for each tier, as `--jail` names them, with the best launcher that works here. */
export function describeWithTiers(title: string, suite: (tier: Tier) => void): void {
  for (const tier of ["namespaces", "landlock"] as const) {
    const tried = found.filter((way) => way.tier === tier).map(({ isolation }) => isolation);
    const reason = tried.map((isolation) => ("obstacle" in isolation ? isolation.obstacle : "")).join("; ");
    const works = tried.some((isolation) => !("obstacle" in isolation));
    const result = works ? { found: tier } : { reason };
    describeFound<Tier>(tier, result, { title: `${title} (${tier})`, suite });
  }
}
