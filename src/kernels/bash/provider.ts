import { CellwrightError } from "../../errors.ts";
import { seenAt } from "../../isolation/jail.ts";
import type { Sandboxes } from "../../isolation/sandboxes.ts";
import type { Log } from "../../log.ts";
import type { Kernel, KernelProvider } from "../kernel.ts";
import { startBash } from "./start.ts";

export interface BashConfig {
  sandboxes: Sandboxes;
  /** The Python environment for a shell: its programs come first on the PATH. Throws if it does not exist. */
  environment(name: string | undefined): Promise<{ python: string; readPaths: string[] }>;
  /** The folder of a session's own packages. */
  packagesOf(slot: { runDir: string }): Promise<string>;
  startTimeoutMs: number;
  log: Log;
}

/** Persistent local shells, in the same sandboxes as local Python. */
export function createBashProvider({ sandboxes, environment, packagesOf, ...config }: BashConfig): KernelProvider {
  const live = new Set<Kernel>();
  return {
    name: "bash",

    async list() {
      if (await sandboxes.obstacle()) return [];
      return [{ provider: "local", language: "bash", description: "bash", layers: [] }];
    },

    async start(spec, { signal, ...slot }) {
      if (spec.language !== "bash") {
        throw new CellwrightError("kernel_not_found", `Shells run bash, not \`${spec.language}\`.`);
      }
      // A shell also works without Python, unless an environment was requested.
      const found = await environment(spec.env).catch((error) => {
        if (spec.env !== undefined) throw error;
      });
      const { python, readPaths = [] } = found ?? {};
      const overlayDir = await packagesOf(slot);
      const around = await sandboxes.for(slot, { environmentPaths: readPaths, python, overlayDir });
      try {
        const { jail, env, limits, phrases, notes, causeOfDeath } = around;
        const kernel = await startBash({
          ...slot,
          jail,
          env: jail ? withPackages(jail.env, seenAt(jail, overlayDir)) : withPackages(env, overlayDir),
          limits,
          causeOfDeath,
          info: { provider: "local", layers: phrases, notes },
          ...config,
          signal,
        });
        const { pid } = kernel;
        around.watch({
          ...(pid !== undefined && { pid }),
          isBusy: () => kernel.busy,
          kill: (reason) => kernel.end(reason),
        });
        live.add(kernel);
        void kernel.closed.then(async () => {
          live.delete(kernel);
          await around.dispose();
        });
        return kernel;
      } catch (error) {
        await around.dispose();
        throw error;
      }
    },

    async dispose() {
      await Promise.all([...live].map((kernel) => kernel.dispose()));
    },
  };
}

/** For programs that a shell starts, like `python/kernel/boot.py` for those of a Python cell. */
function withPackages(env: Record<string, string>, folder: string): Record<string, string> {
  return { ...env, PYTHONPATH: folder, PATH: `${env.PATH}:${folder}/bin` };
}
