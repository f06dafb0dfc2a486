import { CellwrightError } from "../../errors.ts";
import type { Walls } from "../../jail/walls.ts";
import type { Log } from "../../log.ts";
import type { Kernel, KernelProvider } from "../kernel.ts";
import { startBash } from "./start.ts";

export interface BashConfig {
  walls: Walls;
  /** What a shell sees of a Python environment: its programs come first on the PATH. */
  environment(name: string | undefined): Promise<{ python: string; readPaths: string[] } | undefined>;
  startTimeoutMs: number;
  log: Log;
}

/** Persistent shells of this machine, behind the same walls as local Python. */
export function createBashProvider({ walls, environment, startTimeoutMs, log }: BashConfig): KernelProvider {
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
      const { python, readPaths = [] } = (await environment(spec.env)) ?? {};
      const around = await walls.for(slot, { environmentPaths: readPaths, python });
      try {
        const { jail, env, limits, phrases, notes, causeOfDeath } = around;
        const kernel = await startBash({
          ...slot,
          jail,
          env: jail ? {} : env,
          limits,
          causeOfDeath,
          info: { provider: "local", walls: phrases, notes },
          startTimeoutMs,
          signal,
          log,
        });
        around.watch({ isBusy: () => kernel.busy, condemn: (reason) => kernel.end(reason) });
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
