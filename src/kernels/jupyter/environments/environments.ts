import { join } from "node:path";
import type { Log } from "../../../log.ts";
import type { Options } from "../../../options.ts";
import type { Environments } from "../../kernel.ts";
import type { EnvironmentsConfig } from "./environment.ts";
import { listEnvironments } from "./list.ts";
import { createManaged, removeManaged } from "./managed.ts";
import { Remembered } from "./remembered.ts";

/** What options say about environments. */
export function environmentsConfig(options: Options, log: Log): EnvironmentsConfig {
  const { dataDir, envRoot, env, autoInstallIpykernel, packageIndex, workspace, allowWrite } = options;
  return {
    dataDir,
    envRoot,
    // Sessions elsewhere have no say in which of these is the usual one.
    defaultEnv: env === "wasm" ? undefined : env,
    autoInstallIpykernel,
    packageIndex,
    writableByCode: [join(dataDir, "sessions"), ...(workspace ? [workspace] : []), ...allowWrite],
    env: process.env,
    remembered: new Remembered(),
    log,
  };
}

export function createEnvironments(config: EnvironmentsConfig): Environments {
  const { dataDir, env, packageIndex } = config;
  return {
    list: (signal) => listEnvironments(config, signal),
    create: (name, options) => createManaged({ dataDir, name, env, packageIndex, ...options }),
    remove: (name) => removeManaged(dataDir, name),
  };
}
