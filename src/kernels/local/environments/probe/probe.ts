import { realpathSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import type { EnvironmentsConfig } from "../environment.ts";
import type { Answer, Interpreter } from "./interpreter.ts";
import { probeInJail, probeOpenly } from "./run.ts";

const MARK = "cellwright-probe ";

export interface Question {
  python: string;
  /** Paths that the interpreter has to see. */
  paths: string[];
  /** Where jails do not work, only a vouched interpreter is probed. */
  isVouched: boolean;
}

/** For interpreters that run without a jail anyway. */
export const openly: EnvironmentsConfig["jail"] = {
  isOff: true,
  isolation: async () => ({ obstacle: "isolation is off" }),
};

/** Probes an interpreter of the operator, outside a jail. Undefined if it does not run. */
export async function askOpenly(python: string, env: NodeJS.ProcessEnv): Promise<Interpreter | undefined> {
  const answer = await ask({ python, paths: [], isVouched: true }, { env, jail: openly });
  return "interpreter" in answer ? answer.interpreter : undefined;
}

/** Probes an interpreter once, and again only if its file or a folder of its packages has changed. */
export async function askInterpreter(
  question: Question,
  config: Pick<EnvironmentsConfig, "remembered" | "env" | "jail">,
): Promise<Answer> {
  const { answers } = config.remembered;
  const { python } = question;
  const key = JSON.stringify(question);
  const known = answers.get(key);
  if (known instanceof Promise) return known;
  if (known && known.stamp === stampOf(python, known.answer)) return known.answer;
  const asking = ask(question, config).then((answer) => {
    // Failures are not cached: they may go away without a change on disk.
    if ("interpreter" in answer) answers.set(key, { stamp: stampOf(python, answer), answer });
    else answers.delete(key);
    return answer;
  });
  answers.set(key, asking);
  return asking;
}

async function ask(
  { python, paths, isVouched }: Question,
  { env, jail }: Pick<EnvironmentsConfig, "env" | "jail">,
): Promise<Answer> {
  const isolation = await jail.isolation();
  const isOpen = "obstacle" in isolation;
  if (isOpen && !jail.isOff && !isVouched) {
    return { failure: `it cannot be probed without isolation: ${isolation.obstacle}`, timedOut: false };
  }
  const asked = isOpen ? probeOpenly(python, env) : probeInJail(python, paths, isolation);
  const { stdout, failure, timedOut } = await asked;
  const line = stdout.split("\n").find((each) => each.startsWith(MARK));
  if (line === undefined) return { failure: failure || "it did not answer", timedOut };
  try {
    return { interpreter: parse(JSON.parse(line.slice(MARK.length)), python) };
  } catch (error) {
    return { failure: `its answer is invalid: ${(error as Error).message}`, timedOut: false };
  }
}

/** The answer is untrusted, and models see it. */
function parse(answer: Record<string, unknown>, python: string): Interpreter {
  const text = (key: string, form: RegExp): string => {
    const value = answer[key];
    if (typeof value !== "string" || !form.test(value)) throw new Error(`it has no ${key}`);
    return value;
  };
  const paths = (key: string): string[] =>
    (answer[key] as unknown[]).map(String).filter((path) => isAbsolute(path) && !path.includes("\0"));
  const versions = Object.entries(answer.distributions as object).map(([name, version]) => [name, String(version)]);
  return {
    python,
    prefix: text("prefix", /^[^\0]+$/),
    basePrefix: text("basePrefix", /^[^\0]+$/),
    version: text("version", /^\d+\.\d+\.\d+$/),
    path: paths("path").slice(0, MOST),
    places: paths("places").slice(0, MOST),
    pathFiles: paths("pathFiles").slice(0, MOST),
    distributions: Object.fromEntries(
      versions.filter(([name = "", version = ""]) => isPlain(name) && isPlain(version)),
    ),
    hasIpykernel: answer.hasIpykernel === true,
    hasPip: answer.hasPip === true,
    isExternallyManaged: answer.isExternallyManaged === true,
  };
}

const MOST = 1_000;

function isPlain(word: string): boolean {
  return /^[\w.!+-]{1,100}$/.test(word);
}

function stampOf(python: string, answer: Answer): string {
  if (!("interpreter" in answer)) return lastChange(python);
  const { path, pathFiles, prefix } = answer.interpreter;
  return [python, join(prefix, "pyvenv.cfg"), ...path, ...pathFiles].map(lastChange).join(" ");
}

function lastChange(path: string): string {
  try {
    const { mtimeMs, ino } = statSync(path);
    return `${realpathSync.native(path)}:${ino}:${mtimeMs}`;
  } catch {
    return "none";
  }
}
