import { execFile } from "node:child_process";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findProgram, isProgram } from "../programs.ts";
import { jailHostDir } from "./fork-jail.ts";
import type { Isolation, Jail, JailMode, Launcher, Tier } from "./jail.ts";
import { localJail } from "./local-jail.ts";
import { seccompFilter } from "./seccomp.ts";
import { spawnJailed } from "./spawn.ts";

const run = promisify(execFile);

/** The isolation that works here, or why there is none, as a clause. */
export type FoundIsolation = Isolation | { obstacle: string };

/** Longest that starting a program in a jail may take; a launcher that hangs is one that does not work. */
const TRIAL_TIMEOUT_MS = 20_000;

const found = new Map<JailMode, Promise<FoundIsolation>>();

/** The best tier that works on this machine, found by trying each with all that a session needs; once per process. */
export function findIsolation(mode: JailMode): Promise<FoundIsolation> {
  let known = found.get(mode);
  if (!known) {
    known = tryTiers(mode);
    found.set(mode, known);
  }
  return known;
}

/** What a tier does not close, as phrases; all of it is in docs/security.md. */
export function gapsOf({ tier, landlockAbi }: Isolation): string[] {
  if (tier === "namespaces") return [];
  return [
    "names, sizes and dates of other files are visible",
    "shared memory can be opened by its exact name",
    ...(landlockAbi < 2 ? ["files cannot be moved between folders"] : []),
  ];
}

/** One way of isolation in particular. */
export async function tryIsolation(tier: Tier, kind: Launcher["kind"]): Promise<FoundIsolation> {
  const program = findLauncher(kind);
  if (!program) return { obstacle: `there is no ${kind === "python" ? "`python3`" : "bubblewrap (`bwrap`)"}` };
  const candidate = { tier, launcher: { kind, program } };
  const { failure, landlockAbi } = await tryOut(candidate);
  return failure === undefined ? { ...candidate, landlockAbi } : { obstacle: failure };
}

async function tryTiers(mode: JailMode): Promise<FoundIsolation> {
  if (mode === "none") return { obstacle: "the jail is switched off" };
  if (process.platform !== "linux") return { obstacle: `isolation needs Linux, and this is ${process.platform}` };
  const reasons: string[] = [];
  for (const { name, tier, kind } of ways.filter((way) => mode === "auto" || way.tier === mode)) {
    const isolation = await tryIsolation(tier, kind);
    if (!("obstacle" in isolation)) return { ...isolation, judgingLauncher: await judgingLauncher(isolation) };
    reasons.push(`${name}: ${isolation.obstacle}`);
  }
  return { obstacle: reasons.join("; ") };
}

/** The best first. */
const ways: { name: string; tier: Tier; kind: Launcher["kind"] }[] = [
  { name: "namespaces by bubblewrap", tier: "namespaces", kind: "bubblewrap" },
  { name: "namespaces", tier: "namespaces", kind: "python" },
  { name: "Landlock", tier: "landlock", kind: "python" },
];

async function judgingLauncher({ tier, launcher }: Isolation): Promise<Launcher | undefined> {
  if (launcher.kind === "python") return launcher;
  const own = await tryIsolation(tier, "python");
  return "obstacle" in own ? undefined : own.launcher;
}

type Candidate = Pick<Isolation, "tier" | "launcher">;

/** Runs a shell in a jail like a session's, which says what it finds. */
async function tryOut(candidate: Candidate): Promise<{ failure?: string; landlockAbi: number }> {
  if (!seccompFilter()) return { failure: `system calls of ${process.arch} are not known`, landlockAbi: 0 };
  const folder = await realpath(await mkdtemp(join(tmpdir(), "cellwright-jail-")));
  try {
    const landlockAbi = await abiOf(candidate.launcher);
    const isolation = { ...candidate, landlockAbi };
    if (candidate.tier === "landlock" && landlockAbi === 0)
      return { failure: "this kernel has no Landlock", landlockAbi };
    const jail = await localJail({ isolation, environmentPaths: [], workspaceDir: folder, tmpDir: folder });
    const probe = 'echo here > file && read line < file && [ "$line" = here ] && test -e /proc/self/status';
    const failure = await failureOf(jail, ["/bin/sh", "-c", probe]);
    return failure === undefined ? { landlockAbi } : { failure, landlockAbi };
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error), landlockAbi: 0 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const ABI_SCRIPT = `
import sys, types
package = types.ModuleType("_cellwright_jail")
package.__path__ = [sys.argv[1]]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import linux
print(linux.landlock_abi())
`;

/** Only a Python can ask, and only a jail that a Python builds has Landlock in it. */
async function abiOf({ kind, program }: Launcher): Promise<number> {
  if (kind !== "python") return 0;
  const args = ["-I", "-S", "-B", "-c", ABI_SCRIPT, jailHostDir];
  const { stdout } = await run(program, args, { cwd: "/", env: {}, timeout: TRIAL_TIMEOUT_MS });
  return Number(stdout);
}

/** Why a command did not end well in a jail, or nothing. */
async function failureOf(jail: Jail, command: string[]): Promise<string | undefined> {
  const { child } = spawnJailed(jail, command, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-1_000);
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), TRIAL_TIMEOUT_MS);
  try {
    return await new Promise((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("close", (code, signal) => {
        const last = said.trim().split("\n").at(-1);
        resolve(code === 0 ? undefined : last || `it ended with ${signal ?? `exit code ${code}`}`);
      });
    });
  } finally {
    clearTimeout(timer);
  }
}

/** The system's own Python first: what else is on the PATH may be a script that looks for one. */
function findLauncher(kind: Launcher["kind"]): string | undefined {
  if (kind === "bubblewrap") return findProgram("bwrap");
  return ["/usr/bin/python3", "/usr/local/bin/python3"].find(isProgram) ?? findProgram("python3");
}
