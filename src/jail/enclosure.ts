import { realpath } from "node:fs/promises";
import type { Isolation, Mount, Symlink, Tier } from "./jail.ts";
import { enclosureFilter } from "./policy.ts";
import { systemMounts } from "./system-mounts.ts";

/** What a process may touch whose forks build jails of their own; plain JSON for `host/enclosure.py`. */
export interface Enclosure {
  tier: Tier;
  landlockAbi: number;
  readOnly: Mount[];
  readWrite: Mount[];
  symlinks: Symlink[];
  /** Whether forks need the machine's: otherwise there is none. */
  network: boolean;
  /** Of system calls, where no namespace takes the network away; in hex. */
  seccomp?: string | undefined;
}

export interface EnclosureOptions {
  isolation: Isolation;
  /** What all its forks may read and write, at its own place. */
  readable: string[];
  writable: string[];
  network: boolean;
}

export async function enclosure({ isolation, readable, writable, network }: EnclosureOptions): Promise<Enclosure> {
  const { tier, landlockAbi } = isolation;
  const system = systemMounts({ network, isApart: false });
  return {
    tier,
    landlockAbi,
    readOnly: [...system.readOnly, ...(await inPlace(readable))],
    readWrite: await inPlace(writable),
    symlinks: system.symlinks,
    network,
    ...(tier === "landlock" && !network && { seccomp: enclosureFilter() }),
  };
}

/** By the paths they are known by, and where they really are. What is not there is left out. */
async function inPlace(paths: string[]): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const path of new Set(paths)) {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) continue;
    for (const at of new Set([path, real])) mounts.push({ from: real, at });
  }
  return mounts;
}
