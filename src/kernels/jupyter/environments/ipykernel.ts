import { CellwrightError } from "../../../errors.ts";
import type { Candidate } from "./candidate.ts";
import { runCommand } from "./command.ts";
import type { EnvironmentsConfig, FindOptions } from "./environment.ts";
import { installerEnv } from "./pip-settings.ts";
import type { Remedy } from "./remedy.ts";

/** conda solves for minutes on a slow machine. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/** Installs ipykernel, once for all who wait for it, as --auto-install-ipykernel allows. Throws `env_error` when that fails. */
export async function runRemedy(
  remedy: Remedy,
  candidate: Candidate,
  config: EnvironmentsConfig,
  { progress }: FindOptions,
): Promise<void> {
  const { installations } = config.remembered;
  progress?.(`installing ipykernel into ${candidate.name}`);
  const installation =
    installations.get(remedy.text) ??
    install(remedy, candidate, config).finally(() => installations.delete(remedy.text));
  installations.set(remedy.text, installation);
  await installation;
}

/** Not ended with the call that wanted it: half an installation is worse than one that nobody waits for. */
async function install(remedy: Remedy, { name }: Candidate, config: EnvironmentsConfig): Promise<void> {
  const [file, ...args] = remedy.argv ?? [""];
  config.log.info(`environment ${name}: ${remedy.text}`);
  const { ok, failure } = await runCommand(file, args, {
    env: installerEnv(config.env, config.packageIndex),
    ...(remedy.cwd ? { cwd: remedy.cwd } : {}),
    timeoutMs: INSTALL_TIMEOUT_MS,
  });
  if (ok) return;
  throw new CellwrightError("env_error", `ipykernel could not be installed into environment \`${name}\`: ${failure}.`, {
    hint: `Repair that, or install it by hand with \`${remedy.text}\`.`,
  });
}
