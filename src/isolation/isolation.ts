import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitOf, lastLine } from "../process/ending.ts";
import { findProgram, isProgram } from "../process/programs.ts";
import { runProbe } from "./fork-jail.ts";
import type { Isolation, Jail, JailMode, Launcher, Tier } from "./jail.ts";
import { localJail } from "./local-jail.ts";
import { seccompFilter } from "./seccomp/seccomp.ts";
import { killJailed, spawnJailed } from "./spawn.ts";

/** The isolation that works here, or why none does, as a clause. */
export type FoundIsolation = Isolation | { obstacle: string };

/** Timeout for starting a program in a jail; a launcher that hangs counts as not working. */
const TRIAL_TIMEOUT_MS = 20_000;

const found = new Map<JailMode, Promise<FoundIsolation>>();

/** The best tier that works on this machine, found by trying each with a session's policy; cached per process. */
export function findIsolation(mode: JailMode): Promise<FoundIsolation> {
  let known = found.get(mode);
  if (!known) {
    known = tryTiers(mode);
    found.set(mode, known);
  }
  return known;
}

/** What a tier does not block, as phrases; docs/security.md has the full list. */
export function gapsOf({ tier, landlockAbi }: Isolation): string[] {
  if (tier === "namespaces") return [];
  return [
    "names, sizes and dates of other files are visible",
    "shared memory can be opened by its exact name",
    ...(landlockAbi < 2 ? ["files cannot be moved between folders"] : []),
  ];
}

/** Tries one combination of tier and launcher. */
export async function tryIsolation(tier: Tier, kind: Launcher["kind"]): Promise<FoundIsolation> {
  const program = findLauncher(kind);
  if (!program) return { obstacle: `there is no ${kind === "python" ? "`python3`" : "bubblewrap (`bwrap`)"}` };
  return tryLauncher(tier, { kind, program });
}

async function tryTiers(mode: JailMode): Promise<FoundIsolation> {
  if (mode === "none") return { obstacle: "isolation is off (--jail none)" };
  if (process.platform !== "linux") return { obstacle: `isolation needs Linux, and this is ${process.platform}` };
  const reasons: string[] = [];
  for (const { name, tier, kind } of candidates.filter(({ tier }) => mode === "auto" || tier === mode)) {
    const isolation = await tryIsolation(tier, kind);
    if (!("obstacle" in isolation)) return { ...isolation, gateLauncher: await findGateLauncher(isolation) };
    reasons.push(`${name}: ${isolation.obstacle}`);
  }
  return { obstacle: reasons.join("; ") };
}

/** Best first. */
const candidates: { name: string; tier: Tier; kind: Launcher["kind"] }[] = [
  { name: "namespaces by bubblewrap", tier: "namespaces", kind: "bubblewrap" },
  { name: "namespaces", tier: "namespaces", kind: "python" },
  { name: "Landlock", tier: "landlock", kind: "python" },
];

async function findGateLauncher({ tier, launcher }: Isolation): Promise<Launcher | undefined> {
  if (launcher.kind === "python") return launcher;
  const own = await tryIsolation(tier, "python");
  return "obstacle" in own ? undefined : own.launcher;
}

/** Runs a shell in a jail like a session's. */
async function tryLauncher(tier: Tier, launcher: Launcher): Promise<FoundIsolation> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "cellwright-jail-")));
  try {
    // Throws if the system calls of this processor are not known.
    seccompFilter();
    const isolation = { tier, launcher, landlockAbi: await abiOf(launcher) };
    if (tier === "landlock" && isolation.landlockAbi === 0) return { obstacle: "this kernel has no Landlock" };
    const jail = await localJail({ isolation, environmentPaths: [], workspaceDir: folder, tmpDir: folder });
    const probe = 'echo here > file && read line < file && [ "$line" = here ] && test -e /proc/self/status';
    const failure = await failureOf(jail, ["/bin/sh", "-c", probe]);
    return failure === undefined ? isolation : { obstacle: failure };
  } catch (error) {
    return { obstacle: error instanceof Error ? error.message : String(error) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Only Python can query it, and only jails that Python builds use Landlock. */
async function abiOf({ kind, program }: Launcher): Promise<number> {
  return kind === "python" ? Number(await runProbe(program, ["abi"])) : 0;
}

/** Why a command failed in a jail; undefined if it succeeded. */
async function failureOf(jail: Jail, command: string[]): Promise<string | undefined> {
  const jailed = spawnJailed(jail, command, { stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  jailed.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-1_000);
  });
  const timer = setTimeout(() => killJailed(jailed), TRIAL_TIMEOUT_MS);
  const exit = await exitOf(jailed.child);
  clearTimeout(timer);
  return exit === "exit 0" ? undefined : lastLine(stderr) || `it failed: ${exit}`;
}

/** The system's Python first: another one on the PATH may be a wrapper script. */
function findLauncher(kind: Launcher["kind"]): string | undefined {
  if (kind === "bubblewrap") return findProgram("bwrap");
  return ["/usr/bin/python3", "/usr/local/bin/python3"].find(isProgram) ?? findProgram("python3");
}
