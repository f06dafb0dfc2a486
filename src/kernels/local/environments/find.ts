import { CellwrightError } from "../../../errors.ts";
import type { EnvironmentLook } from "../../kernel.ts";
import { runRemedy } from "./create/ipykernel.ts";
import { type Candidate, usualInterpreter } from "./discover/candidate.ts";
import { type EnvironmentsConfig, type FindOptions, MANAGED, type PythonEnvironment } from "./environment.ts";
import { examine } from "./examine.ts";
import { resolveName } from "./resolve.ts";

/** Finds an environment by name or path. Default: --env, else the managed one. Throws `env_error` with a hint. */
export async function findEnvironment(
  name: string | undefined,
  config: EnvironmentsConfig,
  options: FindOptions = {},
): Promise<PythonEnvironment> {
  const candidate = await resolveName(nameOf(name, config), config, options.signal);
  const examination = await examineAndMend(candidate, config, options);
  options.signal?.throwIfAborted();
  if ("environment" in examination) return examination.environment;
  const { message, hint, remedy } = examination.obstacle;
  const automatic =
    remedy?.argv && !config.autoInstallIpykernel ? " With --auto-install-ipykernel Cellwright does it." : "";
  throw new CellwrightError("env_error", message, { hint: hint + automatic });
}

/** Describes an environment, usable or not, for toolsets that have their own messages. */
export async function lookAtEnvironment(
  name: string | undefined,
  config: EnvironmentsConfig,
  options: FindOptions = {},
): Promise<EnvironmentLook> {
  try {
    const candidate = await resolveName(nameOf(name, config), config, options.signal);
    const { kind, path } = candidate;
    const look = { kind, path, python: candidate.python ?? usualInterpreter(path) };
    const examination = await examineAndMend(candidate, config, options);
    if ("environment" in examination) return look;
    const { message, hint, kind: why } = examination.obstacle;
    return { ...look, obstacle: { kind: why, message, hint } };
  } catch (error) {
    if (!(error instanceof CellwrightError)) throw error;
    const { message, hint } = error;
    return { kind: "venv", path: name ?? "", python: "", obstacle: { kind: "other", message, hint } };
  }
}

/** With --auto-install-ipykernel, also installs a missing ipykernel. */
async function examineAndMend(candidate: Candidate, config: EnvironmentsConfig, options: FindOptions) {
  const examination = await examine(candidate, config);
  if (!("obstacle" in examination && examination.obstacle.remedy?.argv && config.autoInstallIpykernel))
    return examination;
  await runRemedy(examination.obstacle.remedy, candidate, config, options);
  return examine(candidate, config);
}

/** Whether all names resolve to the same interpreter. False if one does not resolve. */
export async function isSameEnvironment(names: (string | undefined)[], config: EnvironmentsConfig): Promise<boolean> {
  try {
    const candidates = await Promise.all(names.map((name) => resolveName(nameOf(name, config), config)));
    const [first, ...others] = candidates.map(({ python }) => python);
    return first !== undefined && others.every((python) => python === first);
  } catch {
    return false;
  }
}

function nameOf(name: string | undefined, { defaultEnv }: EnvironmentsConfig): string {
  return name?.trim() || defaultEnv || MANAGED;
}
