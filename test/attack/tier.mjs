// Which walls the servers of a run have around their kernels; see jail/isolation.ts. Each tier is a process of its own.
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { programPath } from "./server.mjs";

export const TIERS = ["namespaces", "landlock"];
export const tier = process.env.CELLWRIGHT_ATTACK_TIER ?? "namespaces";
export const hasNamespaces = tier === "namespaces";
/** What a server with walls is started with. */
export const JAILED = ["--jail", tier];

/** What the program itself finds when it tries the tier: how it is built, or why it cannot be. */
export async function triedTier() {
  const { findIsolation } = await import(pathToFileURL(join(dirname(programPath), "isolation/isolation.js")).href);
  return findIsolation(tier);
}
