import { basename, dirname, isAbsolute } from "node:path";
import { helperEnv, isSafe } from "../../../../process/programs.ts";
import { runCommand } from "../create/command.ts";
import type { Candidate } from "../discover/candidate.ts";
import type { EnvironmentsConfig, Judgement } from "../environment.ts";

const SHIM_TIMEOUT_MS = 5_000;

/**
 * The interpreter that a shim of pyenv, asdf or mise starts. Shims are scripts that read the user's settings, which are
 * missing in a jail. They are run without a jail, and only if vouched.
 */
export async function behindShim(
  { python = "" }: Pick<Candidate, "python">,
  { isVouched }: Pick<Judgement, "isVouched">,
  { env, remembered }: Pick<EnvironmentsConfig, "env" | "remembered">,
): Promise<string> {
  if (basename(dirname(python)) !== "shims" || !isVouched) return python;
  const known = remembered.shims.get(python) ?? ask(python, env);
  remembered.shims.set(python, known);
  return known;
}

async function ask(python: string, env: NodeJS.ProcessEnv): Promise<string> {
  const args = ["-E", "-s", "-S", "-c", "import sys; print(sys.executable)"];
  const { ok, stdout } = await runCommand(python, args, { env: helperEnv(env), timeoutMs: SHIM_TIMEOUT_MS });
  const path = stdout.trim();
  return ok && isAbsolute(path) && isSafe(path) ? path : python;
}
