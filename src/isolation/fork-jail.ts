import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { lastLine } from "../process/ending.ts";
import type { Isolation } from "./jail.ts";
import { jailRequest } from "./policy.ts";

const run = promisify(execFile);

/** Time for a Python to start and enter a jail. */
const PROBE_TIMEOUT_MS = 20_000;

/** The folder of jail.py: the package `_cellwright_jail` of a zygote. */
export const jailHostDir: string = fileURLToPath(new URL("./python", import.meta.url)).replace(/\/$/, "");

/** Runs `python/probe.py` and returns its output. Rejects if it fails. */
export async function runProbe(python: string, question: string[]): Promise<string> {
  const args = ["-I", "-S", "-B", join(jailHostDir, "probe.py"), ...question];
  const { stdout } = await run(python, args, { cwd: "/", env: {}, timeout: PROBE_TIMEOUT_MS });
  return stdout;
}

/** Why a fork of this Python cannot enter a jail here; undefined if it can. Bubblewrap may still work. */
export async function probeForkJail(python: string, isolation: Isolation): Promise<string | undefined> {
  if (process.platform !== "linux") return `a jail after a fork needs Linux, and this is ${process.platform}`;
  const policy = { isolation, readOnly: [{ from: "/usr", at: "/usr" }], readWrite: [], env: {}, workingDir: "/" };
  try {
    await runProbe(python, ["jail", JSON.stringify(jailRequest(policy))]);
    return undefined;
  } catch (error) {
    const { stderr = "", message } = error as { stderr?: string; message: string };
    return `a fork of ${python} cannot jail itself here: ${lastLine(stderr) || message}`;
  }
}
