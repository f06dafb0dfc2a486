import { CellwrightError } from "../../../../errors.ts";
import type { Candidate } from "../discover/candidate.ts";
import type { EnvironmentsConfig, FindOptions } from "../environment.ts";
import type { Remedy } from "../remedy.ts";
import { runCommand } from "./command.ts";
import { installerEnv } from "./pip-settings.ts";

/** conda's solver takes minutes on a slow machine. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/** Installs ipykernel (--auto-install-ipykernel). Concurrent calls share one installation. Throws `env_error`. */
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

/** Not aborted with the call that started it: half an installation is worse than a late one. */
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
    hint: `Fix that, or install it yourself with \`${remedy.text}\`.`,
  });
}
