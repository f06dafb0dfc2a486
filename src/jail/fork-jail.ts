import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Isolation } from "./jail.ts";
import { jailRequest } from "./policy.ts";

const run = promisify(execFile);

/** Longest that a Python may take to start and to jail itself. */
const PROBE_TIMEOUT_MS = 20_000;

/** The folder of jail.py and its like: the package `_cellwright_jail` of a zygote. */
export const jailHostDir: string = fileURLToPath(new URL("./host", import.meta.url)).replace(/\/$/, "");

const probe = `
import json, os, sys, types
package = types.ModuleType("_cellwright_jail")
package.__path__ = [sys.argv[1]]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import jail
try:
    jail.enter(json.loads(sys.argv[2]))
except OSError as error:
    sys.exit(str(error))
os._exit(0)
`;

/** Why `host/jail.py` cannot jail a fork of this Python here, or nothing when it can. Bubblewrap may be able to. */
export async function probeForkJail(python: string, isolation: Isolation): Promise<string | undefined> {
  if (process.platform !== "linux") return `a jail after a fork needs Linux, and this is ${process.platform}`;
  const policy = { isolation, readOnly: [{ from: "/usr", at: "/usr" }], readWrite: [], env: {}, workingDir: "/" };
  const args = ["-I", "-S", "-B", "-c", probe, jailHostDir, JSON.stringify(jailRequest(policy))];
  try {
    await run(python, args, { cwd: "/", env: {}, timeout: PROBE_TIMEOUT_MS });
    return undefined;
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    return `a fork of ${python} cannot jail itself here: ${stderr?.trim().split("\n").at(-1) || message}`;
  }
}
