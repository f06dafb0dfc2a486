import type { Isolation } from "./jail.ts";
import { enclosureRules, type LandlockRules } from "./landlock-rules.ts";
import { mountsInPlace } from "./mounts/in-place.ts";
import { orderedMounts } from "./mounts/ordered.ts";
import { systemMounts } from "./mounts/system-mounts.ts";
import { enclosureFilter, memoryRules, ROOT_BYTES } from "./policy.ts";

/** The sandbox of a zygote, whose forks build their own jails; plain JSON for `python/enclosure.py`. */
export type Enclosure = { tier: "namespaces"; namespaces: object } | LandlockEnclosure;

interface LandlockEnclosure {
  tier: "landlock";
  landlock: LandlockRules;
  /** Seccomp filter in hex, if the network must be blocked. */
  seccomp: string | undefined;
}

/** Size of its own /tmp, which is hardly used. */
const TMP_MB = 16;

/** Needed to build a jail. */
const machineFolders = ["/proc", "/dev", "/sys"];

export interface EnclosureOptions {
  isolation: Isolation;
  /** Paths that all its forks may read and write. */
  readable: string[];
  writable: string[];
  network: boolean;
}

export async function enclosure({ isolation, readable, writable, network }: EnclosureOptions): Promise<Enclosure> {
  const { tier, landlockAbi: abi } = isolation;
  const system = systemMounts({ network, hasNamespaces: false });
  const readOnly = [...system.readOnly, ...(await mountsInPlace(readable))];
  const readWrite = await mountsInPlace(writable);
  if (tier === "landlock") {
    const landlock = enclosureRules({ abi, readOnly, readWrite, network });
    return { tier, landlock, seccomp: network ? undefined : enclosureFilter() };
  }
  const mounts = orderedMounts({ readOnly, readWrite });
  const { symlinks } = system;
  const memory = memoryRules(TMP_MB);
  return {
    tier,
    namespaces: { sharesNetwork: network, mounts, symlinks, rootBytes: ROOT_BYTES, memory, machineFolders },
  };
}
