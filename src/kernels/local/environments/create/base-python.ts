import { CellwrightError } from "../../../../errors.ts";
import { findProgram } from "../../../../process/programs.ts";
import type { Interpreter } from "../probe/interpreter.ts";
import { askOpenly } from "../probe/probe.ts";
import { Remembered } from "../probe/remembered.ts";
import { behindShim } from "../probe/shim.ts";

/** The oldest Python that current scientific packages support. */
const OLDEST = [3, 10];
const names = ["python3", "python3.13", "python3.12", "python3.14", "python3.11", "python3.10", "python"];

/** The Python to base environments on: the first on the PATH, by these names, that is new enough. */
export async function findBasePython(env: NodeJS.ProcessEnv): Promise<Interpreter> {
  const remembered = new Remembered();
  const seen: string[] = [];
  for (const name of names) {
    const program = findProgram(name, env);
    if (!program) continue;
    // The operator's own program, which is about to create an environment without a jail.
    const python = await behindShim({ python: program }, { isVouched: true }, { env, remembered });
    const interpreter = await askOpenly(python, env);
    if (!interpreter) continue;
    const [major = 0, minor = 0] = interpreter.version.split(".").map(Number);
    if (major === OLDEST[0] && minor >= (OLDEST[1] ?? 0)) return interpreter;
    seen.push(`${interpreter.version} (${python})`);
  }
  const found = seen.length > 0 ? `only ${[...new Set(seen)].join(", ")}` : "none";
  throw new CellwrightError("env_error", `No suitable Python was found on the PATH, ${found}.`, {
    hint: `Install Python ${OLDEST.join(".")} or newer and try again. Until then, sessions run in WebAssembly.`,
  });
}
