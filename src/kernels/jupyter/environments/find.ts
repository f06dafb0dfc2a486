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
  const candidate = await resolveName(name?.trim() || config.defaultEnv || MANAGED, config, signal);
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
