import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import type { Sandboxes } from "../../isolation/sandboxes.ts";
import type { Log } from "../../log.ts";
import type { Kernel, KernelProvider, StartOptions } from "../kernel.ts";
import { adoptLocal } from "./adopt.ts";
import type { EnvironmentsConfig } from "./environments/environment.ts";
import { findEnvironment, isSameEnvironment, lookAtEnvironment } from "./environments/find.ts";
import { listEnvironments } from "./environments/list.ts";
import { readKernelRecord } from "./kernel-record.ts";
import { createInstaller } from "./packages/installer.ts";
import { describe, startLocal } from "./start.ts";
import { Zygotes } from "./zygote/zygotes.ts";

export interface LocalConfig {
  environments: EnvironmentsConfig;
  sandboxes: Sandboxes;
  /** Limits of one session's code, and also of one installation for it. */
  limits: { memoryMb: number; diskMb: number };
  /** Sockets and logs of zygotes. */
  stateDir: string;
  orphanTtlMs: number;
  startTimeoutMs: number;
  /** Packages of every new session, and a folder of wheels to install from. */
  packages: { initial: string[]; packageDir?: string | undefined };
  log: Log;
}

/** Python on this machine: ipykernel in the user's own environments, forked from a zygote where possible. */
export function createLocalProvider(config: LocalConfig): KernelProvider {
  const { environments, sandboxes, log, orphanTtlMs, startTimeoutMs } = config;
  const zygotes = new Zygotes({ stateDir: join(config.stateDir, "zygotes"), sandboxes, log });
  const openPackages = createInstaller({
    ...environments,
    ...config.packages,
    cacheDir: join(environments.dataDir, "cache"),
    isolation: () => sandboxes.isolation(),
    limits: {
      ...config.limits,
      async open({ sessionId, runDir }) {
        const slot = { sessionId: `${sessionId}-packages`, workspaceDir: runDir, runDir };
        const { limits, dispose } = await sandboxes.limitsOf(slot);
        return { forProcess: limits, dispose };
      },
    },
  });
  const live = new Set<Kernel>();
  const warming = new Map<string, Promise<Kernel | undefined>>();
  const disposing = new AbortController();

  const keep = <K extends Kernel>(kernel: K): K => {
    live.add(kernel);
    void kernel.closed.then(() => live.delete(kernel));
    return kernel;
  };

  const startFresh = async (env: string | undefined, options: StartOptions): Promise<Kernel> => {
    const signal = AbortSignal.any([options.signal, disposing.signal]);
    const environment = await findEnvironment(env, environments, { signal, progress: options.progress });
    const packages = await openPackages(options, async () => environment, { ...options, signal });
    const start = {
      ...options,
      ...packages,
      signal,
      environment,
      sandboxes,
      zygotes,
      orphanTtlMs,
      startTimeoutMs,
      log,
    };
    return keep(await startLocal(start));
  };

  return {
    name: "local",

    async list(signal) {
      const environment = await findEnvironment(undefined, environments, { signal });
      return [{ provider: "local", language: "python", description: describe(environment), layers: [] }];
    },

    async start(spec, options) {
      if (spec.language !== "python") {
        throw new CellwrightError("kernel_not_found", `Local kernels run Python, not \`${spec.language}\`.`);
      }
      const warm = warming.get(options.sessionId);
      warming.delete(options.sessionId);
      // Warm kernels use the default environment.
      if (spec.env === undefined) return (await warm) ?? startFresh(undefined, options);
      await (await warm)?.dispose();
      return startFresh(spec.env, options);
    },

    warm(slot) {
      if (disposing.signal.aborted || warming.has(slot.sessionId)) return;
      const started = startFresh(undefined, { ...slot, signal: disposing.signal }).catch((error) => {
        log.debug(`a warm kernel did not start: ${error}`);
        return undefined;
      });
      warming.set(slot.sessionId, started);
    },

    async adopt(_language, options) {
      const { installer } = await openPackages(options, async () => {
        const record = await readKernelRecord(options.runDir);
        return findEnvironment(record?.environment, environments);
      });
      const adopted = await adoptLocal(options, { sandboxes, zygotes, installer, log });
      if (adopted) keep(adopted.kernel);
      return adopted;
    },

    environments: (signal) => listEnvironments(environments, signal),

    environment: (env, options) => lookAtEnvironment(env, environments, options),

    sameEnvironment: (one, other) => isSameEnvironment([one, other], environments),

    async dispose() {
      disposing.abort(new CellwrightError("kernel_start_failed", "The kernels are being shut down."));
      await Promise.all([...warming.values()]);
      await Promise.all([...live].map((kernel) => kernel.dispose()));
      await zygotes.dispose();
    },
  };
}
