import { delimiter, isAbsolute, join } from "node:path";
import { type Candidate, environmentIn, isExecutable } from "./candidate.ts";
import { type EnvironmentsConfig, MANAGED } from "./environment.ts";
import { managedEnvironment } from "./managed.ts";
import { askInterpreter } from "./probe.ts";
import { writableFolderOf } from "./trust.ts";

const names = process.platform === "win32" ? ["python.exe"] : ["python3", "python"];

/**
 * The environment of those who did not make one for us: the managed one where it has been created, else that of the
 * terminal that we were started from, else the first Python on the PATH that has ipykernel.
 */
export async function usualEnvironment(config: EnvironmentsConfig): Promise<Candidate> {
  const managed = managedEnvironment(config.dataDir, MANAGED);
  if (!managed.obstacle) return managed;
  for (const candidate of terminalEnvironments(config.env)) {
    if (candidate.python === undefined || writableFolderOf(candidate, config)) continue;
    const answer = await askInterpreter(candidate.python, config);
    if ("interpreter" in answer && answer.interpreter.hasIpykernel) return candidate;
  }
  return managed;
}

function terminalEnvironments(env: NodeJS.ProcessEnv): Candidate[] {
  const active = [env.VIRTUAL_ENV, env.CONDA_PREFIX].filter((folder) => folder !== undefined && folder !== "");
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const found = folders.flatMap((folder) => names.map((name) => join(folder, name))).filter(isExecutable);
  return [
    ...active.map((folder) => environmentIn(String(folder), String(folder))),
    ...[...new Set(found)].map((python) => ({ name: python, kind: "system" as const, path: python, python })),
  ];
}
