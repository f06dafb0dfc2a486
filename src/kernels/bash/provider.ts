import { CellwrightError } from "../../errors.ts";
import { seenAt } from "../../jail/jail.ts";
import type { Walls } from "../../jail/walls.ts";
import type { Log } from "../../log.ts";
import type { Kernel, KernelProvider } from "../kernel.ts";
import { startBash } from "./start.ts";

export interface BashConfig {
  walls: Walls;
  /** What a shell sees of a Python environment: its programs come first on the PATH. Throws when there is none. */
  environment(name: string | undefined): Promise<{ python: string; readPaths: string[] }>;
  /** The folder of the packages that were installed for a session. */
  packagesOf(slot: { runDir: string }): Promise<string>;
  startTimeoutMs: number;
  log: Log;
}

/** Persistent shells of this machine, behind the same walls as local Python. */
export function createBashProvider({ walls, environment, packagesOf, ...config }: BashConfig): KernelProvider {
  const live = new Set<Kernel>();
  return {
    name: "bash",

    async list() {
      if (await walls.obstacle()) return [];
      return [{ provider: "local", language: "bash", description: "bash", walls: [] }];
    },

    async start(spec, { signal, ...slot }) {
      if (spec.language !== "bash") {
        throw new CellwrightError("kernel_not_found", `Shells run bash, not \`${spec.language}\`.`);
      }
      // A shell works without a Python, too, unless one was asked for.
      const found = await environment(spec.env).catch((error) => {
        if (spec.env !== undefined) throw error;
      });
      const { python, readPaths = [] } = found ?? {};
      const overlayDir = await packagesOf(slot);
      const around = await walls.for(slot, { environmentPaths: readPaths, python, overlayDir });
      try {
        const { jail, env, limits, phrases, notes, causeOfDeath } = around;
        const kernel = await startBash({
          ...slot,
          jail,
          env: jail ? withPackages(jail.env, seenAt(jail, overlayDir)) : withPackages(env, overlayDir),
          limits,
          causeOfDeath,
          info: { provider: "local", walls: phrases, notes },
          ...config,
          signal,
        });
        const { pid } = kernel;
        around.watch({
          ...(pid !== undefined && { pid }),
          isBusy: () => kernel.busy,
          condemn: (reason) => kernel.end(reason),
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

/** For the Pythons and the programs that a shell starts, as for those that a cell of Python starts (host/boot.py). */
function withPackages(env: Record<string, string>, folder: string): Record<string, string> {
  return { ...env, PYTHONPATH: folder, PATH: `${env.PATH}:${folder}/bin` };
}
