import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import type { EnvironmentLook } from "../../kernels/kernel.ts";
import type { ToolContext } from "../../tools/tool.ts";
import { realPath } from "../real-path.ts";

/** The meaning of `env`, and how it is shown. */
export interface ChosenEnvironment {
  /** For the engine: a folder, or undefined for the default. */
  env: string | undefined;
  label: string;
  python: string;
  /** Why no session can run in it. */
  problem?: string;
}

/** A path is a folder, a name is one in ~/envs, and undefined is the default. */
export async function chooseEnvironment(
  env: string | undefined,
  { sessions, options, signal, progress }: ToolContext,
): Promise<ChosenEnvironment> {
  const isPath = env?.includes("/") || env?.startsWith("~");
  const folder = !env
    ? undefined
    : isPath
      ? realPath(resolve(env.replace(/^~(?=$|[/\\])/, homedir())))
      : join(options.envRoot, env);
  const label = !env ? "default" : isPath ? String(folder) : env;
  const look = await sessions.provider.environment?.(folder, { signal, progress });
  const chosen = { env: folder, label, python: look?.python ?? "" };
  return look?.obstacle ? { ...chosen, problem: problemText(label, look, look.obstacle) } : chosen;
}

/** Compared without following symlinks: the interpreter of a venv links to the base Python. */
export function isSameInterpreter(one: string, other: string): boolean {
  return (
    one === other || join(realPath(dirname(one)), basename(one)) === join(realPath(dirname(other)), basename(other))
  );
}

function problemText(label: string, look: EnvironmentLook, obstacle: NonNullable<EnvironmentLook["obstacle"]>): string {
  switch (obstacle.kind) {
    case "no_python":
      // The managed environment does not exist yet; its path would not help.
      if (look.kind === "managed")
        return `There is no Python environment yet: ${plain(obstacle.hint)}, then try again.`;
      return `python interpreter not found at ${look.python} for env '${label}'`;
    case "no_answer":
      return `timed out probing ipykernel in env '${label}'`;
    case "no_ipykernel":
      return `ipykernel not found in env '${label}' (python: ${look.python}). Install with: ${installHint(look)}`;
    case "other":
      return `${obstacle.message} ${obstacle.hint}`;
  }
}

/** A hint as part of a sentence. */
function plain(hint: string): string {
  return hint.replace(/\.$/, "").replace(/^[A-Z]/, (letter) => letter.toLowerCase());
}

function installHint({ kind, path, python }: EnvironmentLook): string {
  if (kind === "pixi" || /[/\\]\.pixi[/\\]envs[/\\]/.test(path)) return "pixi add ipykernel";
  if (kind === "conda") return `mamba install -p ${path} -c conda-forge ipykernel`;
  return `${python} -m pip install ipykernel`;
}
