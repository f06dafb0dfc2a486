import { CellwrightError } from "../../../errors.ts";
import { type EnvironmentsConfig, type FindOptions, MANAGED, type PythonEnvironment } from "./environment.ts";
import { examine } from "./examine.ts";
import { runRemedy } from "./ipykernel.ts";
import { resolveName } from "./resolve.ts";

/**
 * The environment that `name` means; without one, that of --env, else the managed one. Throws `env_error`, with the
 * command that mends it.
 */
export async function findEnvironment(
  name: string | undefined,
  config: EnvironmentsConfig,
  options: FindOptions = {},
): Promise<PythonEnvironment> {
  const { signal } = options;
  const candidate = await resolveName(nameOf(name, config), config, signal);
  let examination = await examine(candidate, config);
  if ("obstacle" in examination && examination.obstacle.remedy?.argv && config.autoInstallIpykernel) {
    await runRemedy(examination.obstacle.remedy, candidate, config, options);
    examination = await examine(candidate, config);
  }
  signal?.throwIfAborted();
  if ("environment" in examination) return examination.environment;
  const { message, hint, remedy } = examination.obstacle;
  const automatic =
    remedy?.argv && !config.autoInstallIpykernel ? " With --auto-install-ipykernel Cellwright does it." : "";
  throw new CellwrightError("env_error", message, { hint: hint + automatic });
}

/** Whether all names lead to one interpreter, as a name and its path do. What leads nowhere is not the same as anything. */
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
