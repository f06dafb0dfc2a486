import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Longest that a Python may take to start and to jail itself. */
const PROBE_TIMEOUT_MS = 20_000;

/** The folder of jail.py, limits.py and forward.py: the package `_cellwright_jail` of a zygote. */
export const jailHostDir: string = fileURLToPath(new URL("./host", import.meta.url)).replace(/\/$/, "");

const probe = `
import os, sys, types
package = types.ModuleType("_cellwright_jail")
package.__path__ = [sys.argv[1]]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import jail
mounts = [{"from": "/usr", "at": "/usr"}]
try:
    jail.enter({"readOnly": mounts, "readWrite": [], "env": {}, "workingDir": "/"})
except OSError as error:
    sys.exit(str(error))
os._exit(0 if os.getpid() == 2 else 1)
`;

/** Why `host/jail.py` cannot jail a fork of this Python here, or nothing when it can. Bubblewrap may be able to. */
export async function probeForkJail(python: string): Promise<string | undefined> {
  if (process.platform !== "linux") return `a jail after a fork needs Linux, and this is ${process.platform}`;
  try {
    await run(python, ["-I", "-B", "-c", probe, jailHostDir], { env: {}, timeout: PROBE_TIMEOUT_MS });
    return undefined;
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    return `a fork of ${python} cannot jail itself here: ${stderr?.trim().split("\n").at(-1) || message}`;
  }
}
