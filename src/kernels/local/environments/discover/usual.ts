import { findPrograms } from "../../../../process/programs.ts";
import { managedEnvironment } from "../create/managed.ts";
import { type EnvironmentsConfig, MANAGED } from "../environment.ts";
import { judge } from "../judge.ts";
import { askCandidate } from "../probe/ask.ts";
import { type Candidate, environmentIn, loneInterpreter } from "./candidate.ts";

const names = process.platform === "win32" ? ["python.exe"] : ["python3", "python"];

/**
 * The default environment: the managed one if it has been created, else the active one of the server's terminal, else
 * the first Python on the PATH. The latter two have to be vouched for and have ipykernel.
 */
export async function usualEnvironment(config: EnvironmentsConfig): Promise<Candidate> {
  const managed = managedEnvironment(config.dataDir, MANAGED);
  if (!managed.obstacle) return managed;
  for (const candidate of terminalEnvironments(config.env)) {
    const judgement = candidate.python === undefined ? undefined : judge(candidate, config);
    if (!judgement?.isVouched) continue;
    const asked = await askCandidate(candidate, judgement, config);
    if ("answer" in asked && "interpreter" in asked.answer && asked.answer.interpreter.hasIpykernel) return candidate;
  }
  return managed;
}

function terminalEnvironments(env: NodeJS.ProcessEnv): Candidate[] {
  const active = [env.VIRTUAL_ENV, env.CONDA_PREFIX].filter((folder) => folder !== undefined && folder !== "");
  return [
    ...active.map((folder) => environmentIn(String(folder), String(folder))),
    ...findPrograms(names, env).map(loneInterpreter),
  ];
}
