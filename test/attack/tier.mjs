// The isolation tier of the servers of a run; see src/isolation/isolation.ts. Each tier is a separate process.
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { programPath } from "./server.mjs";

export const TIERS = ["namespaces", "landlock"];
export const tier = process.env.CELLWRIGHT_ATTACK_TIER ?? "namespaces";
export const hasNamespaces = tier === "namespaces";
/** The arguments of a sandboxed server. */
export const JAILED = ["--jail", tier];

/** What the program itself detects for the tier: the launcher, or why it does not work. */
export async function triedTier() {
  const { findIsolation } = await import(pathToFileURL(join(dirname(programPath), "isolation/isolation.js")).href);
  return findIsolation(tier);
}
