import { existsSync } from "node:fs";
import { join } from "node:path";
import { findProgram } from "../../../process/programs.ts";
import type { Environment } from "../../kernel.ts";
import { notablePackages } from "./create/packages.ts";
import { type Candidate, loneInterpreter } from "./discover/candidate.ts";
import { listedByConda } from "./discover/conda.ts";
import { realPath } from "./discover/folders.ts";
import { namedEnvironments } from "./discover/named.ts";
import { type EnvironmentsConfig, MANAGED } from "./environment.ts";
import { type Examination, examine } from "./examine.ts";
import { resolveName } from "./resolve.ts";

/** Concurrent probes; each is a process. */
const ASKED_AT_ONCE = 4;
/** A folder with hundreds of environments must not cause hundreds of processes per listing. */
const MAX_LISTED = 100;

/** All environments that `env` can name, including unusable ones with the reason. Never installs anything. */
export async function listEnvironments(config: EnvironmentsConfig, signal: AbortSignal): Promise<Environment[]> {
  const defaultName = config.defaultEnv ?? MANAGED;
  const candidates = await gather(config, defaultName, signal);
  const examined = await examineAll(candidates, config, signal);
  const shown: Environment[] = [];
  const interpreters = new Set<string>();
  for (const { candidate, examination } of examined) {
    const environment = describe(candidate, examination);
    const python = "environment" in examination ? examination.environment.python : (candidate.python ?? "");
    // A duplicate: the same Python as a kernelspec or as the system's.
    if (
      ["kernelspec", "system"].includes(environment.kind) &&
      interpreters.has(python) &&
      candidate.name !== defaultName
    )
      continue;
    if (python) interpreters.add(python);
    shown.push(candidate.name === defaultName ? { ...environment, isDefault: true } : environment);
  }
  return shown;
}

async function gather(config: EnvironmentsConfig, defaultName: string, signal: AbortSignal): Promise<Candidate[]> {
  const named = [...namedEnvironments(config), ...(await listedByConda(config.env, signal))];
  const known = named.filter(isEnvironment);
  const system = findProgram("python3", config.env);
  const candidates = [...known, ...(system ? [loneInterpreter(system)] : [])];
  if (!candidates.some(({ name }) => name === defaultName)) {
    const chosen = await resolveName(defaultName, config, signal).catch(() => undefined);
    if (chosen) candidates.unshift(chosen);
  }
  return withDistinctNames(candidates).slice(0, MAX_LISTED);
}

/** Whether a folder among environments is one, even if its interpreter is gone. */
function isEnvironment({ kind, path, python, obstacle }: Candidate): boolean {
  return python !== undefined || obstacle !== undefined || kind !== "venv" || existsSync(join(path, "pyvenv.cfg"));
}

/** The first keeps the name, because the name resolves to it; later ones are listed by path. */
function withDistinctNames(candidates: Candidate[]): Candidate[] {
  const names = new Set<string>();
  const places = new Set<string>();
  return candidates.flatMap((candidate) => {
    const place = `${candidate.kind} ${realPath(candidate.path)}`;
    if (places.has(place)) return [];
    places.add(place);
    const isTaken = names.has(candidate.name);
    names.add(candidate.name);
    if (!isTaken) return [candidate];
    const path = candidate.kind === "kernelspec" ? candidate.python : candidate.path;
    return path ? [{ ...candidate, name: path }] : [];
  });
}

async function examineAll(candidates: Candidate[], config: EnvironmentsConfig, signal: AbortSignal) {
  const waiting = [...candidates.entries()];
  const results: { candidate: Candidate; examination: Examination }[] = [];
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      signal.throwIfAborted();
      const [index, candidate] = next;
      results[index] = { candidate, examination: await examine(candidate, config) };
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, work));
  return results;
}

function describe(candidate: Candidate, examination: Examination): Environment {
  const { name, kind } = candidate;
  const path = kind === "kernelspec" ? (candidate.python ?? candidate.path) : candidate.path;
  if ("environment" in examination) {
    const { version, packages } = examination.environment;
    return { name, kind, path, python: version, packages: withVersions(packages) };
  }
  const { message, hint, interpreter } = examination.obstacle;
  return {
    name,
    kind,
    path,
    ...(interpreter ? { python: interpreter.version } : {}),
    packages: withVersions(notablePackages(interpreter?.distributions ?? {})),
    obstacle: `${message} ${hint}`,
  };
}

function withVersions(packages: Record<string, string>): string[] {
  return Object.entries(packages).map(([name, version]) => `${name} ${version}`);
}
