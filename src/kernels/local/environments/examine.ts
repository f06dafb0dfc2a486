import { existsSync } from "node:fs";
import { isSafe } from "../../../process/programs.ts";
import { wayIfAny } from "../../../reach/code-reach.ts";
import type { EnvironmentLook } from "../../kernel.ts";
import { notablePackages } from "./create/packages.ts";
import type { Candidate } from "./discover/candidate.ts";
import { usualInterpreter } from "./discover/candidate.ts";
import { linkTarget } from "./discover/folders.ts";
import type { EnvironmentsConfig, Judgement, PythonEnvironment } from "./environment.ts";
import { judge } from "./judge.ts";
import { askCandidate } from "./probe/ask.ts";
import type { Interpreter } from "./probe/interpreter.ts";
import { createCommand, installIpykernel, installPython, makeVenv, type Remedy } from "./remedy.ts";

/** Minimum versions; ipykernel's is that of Debian 12. */
const OLDEST_PYTHON = [3, 9];
const OLDEST_IPYKERNEL = [6, 17];

/** Why an environment is unusable, and what to do about it. */
export interface Obstacle {
  kind: NonNullable<EnvironmentLook["obstacle"]>["kind"];
  message: string;
  hint: string;
  /** Set if only ipykernel is missing: the command that installs it. */
  remedy?: Remedy;
  /** Set if the interpreter runs. */
  interpreter?: Interpreter;
}

export type Examination = { environment: PythonEnvironment } | { obstacle: Obstacle };

/** Checks whether a candidate is usable. Probes its interpreter, unless the answer is cached. */
export async function examine(candidate: Candidate, config: EnvironmentsConfig): Promise<Examination> {
  const judgement = judge(candidate, config);
  const known = pathRefusal(candidate, judgement, config) ?? obstacleOnDisk(candidate, config);
  if (known) return { obstacle: known };
  const { name } = candidate;
  const asked = await askCandidate(candidate, judgement, config);
  if ("obstacle" in asked) {
    const message = `Environment \`${name}\` cannot be used: ${asked.obstacle}.`;
    const hint = "Start Cellwright with --env to vouch for it, or call list_environments and choose another.";
    return { obstacle: { kind: "other", message, hint } };
  }
  const { answer, python, readPaths, within } = asked;
  if (!("interpreter" in answer)) {
    const said = answer.timedOut ? "did not answer within 15 s" : `does not run: ${answer.failure}`;
    const message = `The Python of environment \`${name}\` (${python}) ${said}.`;
    return { obstacle: { kind: answer.timedOut ? "no_answer" : "other", message, hint: again(candidate) } };
  }
  const { interpreter } = answer;
  const { version, prefix, basePrefix, distributions } = interpreter;
  const about = `Environment \`${name}\` (${interpreter.python})`;
  if (isOlder(version, OLDEST_PYTHON)) {
    const message = `${about} has Python ${version}; kernels need ${OLDEST_PYTHON.join(".")} or newer.`;
    return { obstacle: { kind: "other", message, hint: "Call list_environments and choose another.", interpreter } };
  }
  const ipykernel = distributions.ipykernel ?? "unknown";
  const isOld = interpreter.hasIpykernel && ipykernel !== "unknown" && isOlder(ipykernel, OLDEST_IPYKERNEL);
  if (!interpreter.hasIpykernel || isOld) {
    const remedy = remedyFor(candidate, { interpreter, judgement, config });
    const lacks = isOld
      ? `has ipykernel ${ipykernel}; ${OLDEST_IPYKERNEL.join(".")} or newer is needed.`
      : "has no ipykernel.";
    return {
      obstacle: {
        kind: isOld ? "other" : "no_ipykernel",
        message: `${about} ${lacks}`,
        hint: isOld ? `Upgrade it, as with \`${remedy.text}\`.` : `Install it with \`${remedy.text}\`.`,
        ...(isOld ? {} : { remedy }),
        interpreter,
      },
    };
  }
  return {
    environment: {
      name,
      kind: candidate.kind,
      python: interpreter.python,
      prefix,
      basePrefix,
      version,
      ipykernel,
      packages: notablePackages(distributions),
      readPaths,
      within,
      coldReason: judgement.why ?? writableOnPath(interpreter, config),
    },
  };
}

/** The message does not reveal whether the path exists. */
function pathRefusal(
  { byPath, name }: Candidate,
  { isVouched }: Judgement,
  { allowPaths, defaultEnv }: EnvironmentsConfig,
): Obstacle | undefined {
  if (!byPath || isVouched || allowPaths || name === defaultEnv) return undefined;
  const message = `Environment \`${name}\` is a path; on this server, environments are chosen by name.`;
  const hint = "Call list_environments and use a name, or start Cellwright with --allow-env-paths.";
  return { kind: "other", message, hint };
}

/** A folder on the import path that code can write to, as a phrase. */
function writableOnPath({ path, places }: Interpreter, { vouched, jail }: EnvironmentsConfig): string | undefined {
  if (jail.isOff) return undefined;
  const writable = [...path, ...places].find((folder) => {
    const way = wayIfAny(folder);
    return !way || vouched.reach.throughWay(way) !== undefined;
  });
  return writable && `code of sessions can write to ${writable}, which is on its import path`;
}

/** The remedy is only run for vouched environments, and not in a folder that code can change. */
function remedyFor(
  candidate: Candidate,
  { interpreter, judgement, config }: { interpreter: Interpreter; judgement: Judgement; config: EnvironmentsConfig },
): Remedy {
  const { text, argv, cwd } = installIpykernel(candidate, interpreter, config.env);
  const mayRun = judgement.isVouched && !writableOnPath(interpreter, config) && (cwd === undefined || isSafe(cwd));
  return argv && mayRun ? { text, argv, ...(cwd && { cwd }) } : { text };
}

/** Obstacles that are found without starting a process. */
function obstacleOnDisk(candidate: Candidate, config: EnvironmentsConfig): Obstacle | undefined {
  const { name, kind, path, python, obstacle } = candidate;
  if (obstacle && kind === "kernelspec") {
    const install = `python -m ipykernel install --user --name ${name}`;
    const hint = `Remove it with \`jupyter kernelspec remove ${name}\`, or run \`${install}\` in the environment it is for.`;
    return { kind: "other", message: `Environment \`${name}\`: ${obstacle}`, hint };
  }
  if (obstacle && kind === "managed") {
    return { kind: "no_python", message: obstacle, hint: `Run \`${createCommand(name)}\`.` };
  }
  if (obstacle) {
    const hint = "Call list_environments and choose another.";
    return { kind: "other", message: `Environment \`${name}\`: ${obstacle}`, hint };
  }
  if (python) return undefined;

  const usual = usualInterpreter(path);
  const target = linkTarget(usual);
  const why = target
    ? `${usual} points to ${target}, which no longer exists`
    : `${existsSync(path) ? usual : path} does not exist`;
  const hint = target ? again(candidate) : `Create it with \`${installPython(candidate, config.env)}\`.`;
  return { kind: "no_python", message: `Environment \`${name}\` has no Python: ${why}.`, hint };
}

/** A hint for a broken environment. */
function again({ kind, path, name }: Candidate): string {
  if (kind === "managed") return `Run \`${createCommand(name)}\` to create it again.`;
  if (kind === "venv") return `Create it again: \`${makeVenv(path, { clear: true })}\`.`;
  return "Repair it with the tool that created it, or call list_environments and choose another.";
}

function isOlder(version: string, [major = 0, minor = 0]: number[]): boolean {
  const [ownMajor = 0, ownMinor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  return ownMajor < major || (ownMajor === major && ownMinor < minor);
}
