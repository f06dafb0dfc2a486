import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Isolation } from "../../../isolation/jail.ts";
import type { ProcessLimits } from "../../../isolation/limits/limits.ts";
import type { Log } from "../../../log.ts";
import { normalName, normalRequirement, normalRequirements } from "../../../packages/requirement.ts";
import { requirementsOf } from "../../../packages/script-block.ts";
import { findProgram } from "../../../process/programs.ts";
import type { InstalledPackage, InstallOptions, PrepareOptions } from "../../kernel.ts";
import type { Ask, JupyterKernelParts, KernelInstaller } from "../../protocol/kernel.ts";
import type { CommandLine } from "../environments/create/command.ts";
import { findUv } from "../environments/create/uv.ts";
import { isExecutable } from "../environments/discover/candidate.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import { failureOf, packageError } from "./failure.ts";
import { openGateway } from "./gateway.ts";
import { moveIntoOverlay, openOverlay } from "./overlay.ts";
import { type PipLine, wantedOf } from "./pip-line.ts";
import { findPlaces, type PackagePlaces, type PlacesConfig } from "./places.ts";
import { type InstallLimits, runInstall } from "./run.ts";

/** A line that may install something; only the kernel can tell for sure. */
const pipLine = /\bpip3?\s+install\b/;
/** Or a script block (PEP 723). */
const mayInstall = new RegExp(`${pipLine.source}|^# /// script`, "m");

export interface InstallerConfig extends PlacesConfig {
  /** Contains uv if Cellwright has downloaded it. */
  cacheDir: string;
  /** --packages: packages of every new session. */
  initial: string[];
  /** For the installer's process; undefined with `--jail none`. */
  isolation(): Promise<Isolation | undefined>;
  /** Limits of an installation, the same as for a session's code. Absent: unlimited. */
  limits?: SessionLimiter | undefined;
  log: Log;
}

export interface SessionLimiter extends Pick<InstallLimits, "memoryMb" | "diskMb"> {
  /** Separate from the limits of the session's kernels: an installation must not get a kernel killed. */
  open(slot: PackagesSlot): Promise<{ forProcess: ProcessLimits; dispose(): Promise<void> }>;
}

export interface PackagesSlot {
  sessionId: string;
  runDir: string;
}

/** A session's packages, as a kernel start needs them. */
export interface SessionPackages {
  /** Lives as long as the session's run folder, so that packages survive a restart of the kernel. */
  overlayDir: string;
  /** Why the kernel must not be forked: the zygote has already imported the environment's packages. */
  coldReason?: string | undefined;
  installer: NonNullable<JupyterKernelParts["installer"]>;
}

/** `start`: a kernel is about to be started; also installs the initial packages. */
export type OpenPackages = (
  slot: PackagesSlot,
  environment: () => Promise<PythonEnvironment>,
  start?: InstallOptions,
) => Promise<SessionPackages>;

/** Exists once the initial packages are installed. */
const INITIAL_FILE = "initial-packages";
/** Names of the session's packages that the environment also has. */
const REPLACED_FILE = "replaced-packages.json";

/** Installs packages for one session, into the session's overlay folder. The installer runs in its own jail. */
export function createInstaller(config: InstallerConfig): OpenPackages {
  const places = new Map<string, Promise<PackagePlaces>>();
  /** By run folder: one installation at a time per session, even across kernel restarts. */
  const queues = new Map<string, Promise<void>>();

  const inTurn = async <T>(runDir: string, work: () => Promise<T>): Promise<T> => {
    const before = queues.get(runDir) ?? Promise.resolve();
    const result = before.then(work);
    const over = result.then(
      () => {},
      () => {},
    );
    queues.set(runDir, over);
    void over.then(() => {
      if (queues.get(runDir) === over) queues.delete(runDir);
    });
    return result;
  };

  const placesFor = (environment: PythonEnvironment): Promise<PackagePlaces> => {
    const found = places.get(environment.python) ?? findPlaces(config, programsToAsk(environment, config));
    places.set(environment.python, found);
    found.catch(() => places.delete(environment.python));
    return found;
  };

  return async (slot, findEnvironment, start) => {
    const { runDir } = slot;
    const overlayDir = await openOverlay(runDir);
    const replacedFile = join(runDir, REPLACED_FILE);

    const install: Install = async (requirements, { upgrade, signal, progress = () => {} }) => {
      const environment = await findEnvironment();
      const uv = uvFor(environment, config);
      const { indexes, strategy, folders, way } = await placesFor(environment);
      const { log } = config;
      const isolation = await config.isolation();
      const gateway = await openGateway({ indexes, way, jailed: isolation !== undefined, progress, log });
      const folder = await mkdtemp(join(runDir, "installing-"));
      let own: Awaited<ReturnType<SessionLimiter["open"]>> | undefined;
      try {
        own = await config.limits?.open(slot);
        const limits = config.limits && own && { ...config.limits, forProcess: own.forProcess };
        const places = { strategy, folders, uv, folder, overlayDir };
        const result = await runInstall({
          ...places,
          environment,
          requirements,
          upgrade,
          gateway,
          limits,
          isolation,
          signal,
        });
        if (result.failure !== undefined) {
          const hasIndex = indexes.length > 0;
          throw failureOf(result, { requirements, environment, facts: gateway.facts, hasIndex });
        }
        signal.throwIfAborted();
        await moveIntoOverlay(join(folder, "site"), overlayDir);
        const names = [...new Set([...(await readNames(replacedFile)), ...result.replaced])];
        if (result.replaced.length > 0) await writeFile(replacedFile, JSON.stringify(names));
        return result.packages;
      } finally {
        await gateway.close();
        await own?.dispose();
        await rm(folder, { recursive: true, force: true });
      }
    };

    if (start && config.initial.length > 0) {
      const initial = normalRequirements(config.initial);
      const initialFile = join(runDir, INITIAL_FILE);
      await inTurn(runDir, async () => {
        if ((await readNames(initialFile)).length > 0) return;
        start.progress?.(`installing ${initial.join(", ")}`);
        await install(initial, { ...start, upgrade: false });
        await writeFile(initialFile, JSON.stringify(initial));
      });
    }
    const replaced = await readNames(replacedFile);
    return {
      overlayDir,
      ...(replaced.length > 0 && {
        coldReason: `the session's packages replace those of the environment: ${replaced.join(", ")}`,
      }),
      installer: (ask) => kernelInstaller(ask, (...args) => inTurn(runDir, () => install(...args))),
    };
  };
}

type Install = (
  requirements: string[],
  options: InstallOptions & { upgrade: boolean },
) => Promise<(InstalledPackage & { modules: string[] })[]>;

function kernelInstaller(ask: Ask, installInTurn: Install): KernelInstaller {
  const ending = new AbortController();
  const running = new Set<Promise<unknown>>();
  /** The latest requirement of each package, so that a cell that runs again installs nothing again. */
  const latest = new Map<string, string>();

  const install = async (
    given: string[],
    options: InstallOptions & { upgrade: boolean },
  ): Promise<InstalledPackage[]> => {
    const requirements = normalRequirements(given);
    options.progress?.(`installing ${requirements.join(", ")}`);
    const signal = AbortSignal.any([options.signal, ending.signal]);
    const work = installInTurn(requirements, { ...options, signal });
    running.add(work);
    try {
      const packages = await work;
      for (const requirement of requirements) latest.set(nameOf(requirement), requirement);
      const loaded = new Set(strings((await ask({ refresh: true }))?.loaded));
      return packages.map(({ name, version, modules }) => ({
        name,
        version,
        ...(modules.some((module) => loaded.has(module)) && { outdated: true }),
      }));
    } finally {
      running.delete(work);
    }
  };

  return {
    wants: mayInstall,
    async prepare(code, options) {
      const lines = pipLine.test(code) ? await pipLines(ask, code, options) : [];
      const wanted = lines.map(wantedOf);
      const upgrade = wanted.some((line) => line.upgrade);
      const named = [...(requirementsOf(code) ?? []), ...wanted.flatMap(({ requirements }) => requirements)];
      const isNew = (requirement: string) => latest.get(nameOf(requirement)) !== normalRequirement(requirement);
      if (!named.some(isNew) && !upgrade) return { installed: [] };
      await install(named, { ...options, upgrade });
      return { installed: named };
    },
    install: (requirements, options) => install(requirements, { ...options, upgrade: false }),
    async end() {
      ending.abort(
        packageError("The session's kernel ended before the packages were installed.", "Install them again."),
      );
      await Promise.allSettled(running);
    },
  };
}

async function pipLines(ask: Ask, code: string, { commands, classic }: PrepareOptions): Promise<PipLine[]> {
  const answer = await ask({ pipLines: code, commands, classic });
  if (!Array.isArray(answer?.lines)) {
    throw packageError(
      "The kernel is busy in native code and did not report what this cell installs.",
      "Use install_packages, or run the cell again.",
    );
  }
  return answer.lines.map((line: { text?: unknown; words?: unknown }) => ({
    text: String(line?.text),
    words: Array.isArray(line?.words) ? strings(line.words) : null,
  }));
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function nameOf(requirement: string): string {
  return normalName(/^[A-Za-z0-9._-]*/.exec(requirement.trim())?.[0] ?? "");
}

async function readNames(file: string): Promise<string[]> {
  try {
    return strings(JSON.parse(await readFile(file, "utf8")));
  } catch {
    return [];
  }
}

/** The environment's own uv, or the machine's; it runs in the jail only. */
function uvFor({ python }: PythonEnvironment, { env, cacheDir }: InstallerConfig): string | undefined {
  const own = join(dirname(python), process.platform === "win32" ? "uv.exe" : "uv");
  return isExecutable(own) ? own : findUv(env, cacheDir);
}

/** Commands that print the default index. They run outside the jail, so code must not be able to change them. */
function programsToAsk(
  { python, coldReason }: PythonEnvironment,
  { env, cacheDir }: Pick<InstallerConfig, "env" | "cacheDir">,
): CommandLine[] {
  const commands: CommandLine[] = [];
  if (coldReason === undefined) commands.push([python, "-I", "-m", "pip", "download", "--help"]);
  const uv = findUv(env, cacheDir);
  if (uv) commands.push([uv, "pip", "install", "--help"]);
  for (const pip of ["pip", "pip3"].map((name) => findProgram(name, env))) {
    if (pip) commands.push([pip, "download", "--help"]);
  }
  return commands;
}
