import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "./command.ts";
import type { Answer, Interpreter } from "./interpreter.ts";
import type { Remembered } from "./remembered.ts";

const probeFile = fileURLToPath(new URL("probe.py", import.meta.url));
const MARK = "cellwright-probe ";

/** An interpreter answers in 50 ms; one on a network disk takes seconds. One that hangs must not hold up a session. */
const PROBE_TIMEOUT_MS = 15_000;

/** Asks an interpreter once; again only when its file or a folder of its packages has changed since. */
export async function askInterpreter(
  python: string,
  { remembered: { answers }, env }: { remembered: Remembered; env: NodeJS.ProcessEnv },
): Promise<Answer> {
  const known = answers.get(python);
  if (known instanceof Promise) return known;
  if (known && known.stamp === stampOf(python, known.answer)) return known.answer;
  const asking = ask(python, env).then((answer) => {
    // A failure may be gone at the next try: nothing on the disk need change for that.
    if ("interpreter" in answer) answers.set(python, { stamp: stampOf(python, answer), answer });
    else answers.delete(python);
    return answer;
  });
  answers.set(python, asking);
  return asking;
}

async function ask(python: string, env: NodeJS.ProcessEnv): Promise<Answer> {
  let line: string | undefined;
  // -I: neither the working directory, nor the user's own packages, nor PYTHON… variables, as in the jail.
  const { ok, timedOut, failure } = await runCommand(python, ["-I", probeFile], {
    env: probeEnv(env),
    timeoutMs: PROBE_TIMEOUT_MS,
    onLine: (said) => {
      if (said.startsWith(MARK)) line = said.slice(MARK.length);
      return line !== undefined;
    },
  });
  if (!ok || line === undefined) return { failure: failure || "it did not answer", timedOut };
  try {
    return { interpreter: parse(JSON.parse(line)) };
  } catch (error) {
    return { failure: `its answer makes no sense: ${(error as Error).message}`, timedOut: false };
  }
}

/** An environment's own start-up files run here: they get to see no secrets. */
function probeEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = ["PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "LANG", "LD_LIBRARY_PATH", "PYENV_ROOT", "PYENV_VERSION"];
  return Object.fromEntries(kept.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

function parse(answer: Record<string, unknown>): Interpreter {
  const text = (key: string): string => {
    const value = answer[key];
    if (typeof value !== "string" || value === "") throw new Error(`it has no ${key}`);
    return value;
  };
  return {
    python: text("python"),
    prefix: text("prefix"),
    basePrefix: text("basePrefix"),
    version: text("version"),
    path: (answer.path as unknown[]).map(String),
    distributions: Object.fromEntries(
      Object.entries(answer.distributions as object).map(([name, version]) => [name, String(version)]),
    ),
    hasIpykernel: answer.hasIpykernel === true,
    hasPip: answer.hasPip === true,
    isExternallyManaged: answer.isExternallyManaged === true,
  };
}

function stampOf(python: string, answer: Answer): string {
  const folders = "interpreter" in answer ? answer.interpreter.path : [];
  const prefix = "interpreter" in answer ? [join(answer.interpreter.prefix, "pyvenv.cfg")] : [];
  return [python, ...prefix, ...folders].map(lastChange).join(" ");
}

function lastChange(path: string): string {
  try {
    const { mtimeMs, ino } = statSync(path);
    return `${realpathSync(path)}:${ino}:${mtimeMs}`;
  } catch {
    return "none";
  }
}
