import { basename, dirname, isAbsolute } from "node:path";
import { helperEnv, isSafe } from "../../../programs.ts";
import type { Candidate } from "./candidate.ts";
import { runCommand } from "./command.ts";
import type { EnvironmentsConfig, Judgement } from "./environment.ts";

const SHIM_TIMEOUT_MS = 5_000;

/**
 * The interpreter that a shim of pyenv, asdf or mise starts. These are scripts that read the user's settings to choose
 * one, and would find none of them in a jail. Run only where the operator's own PATH has them.
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
