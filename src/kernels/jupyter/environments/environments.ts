import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Log } from "../../../log.ts";
import type { Options } from "../../../options.ts";
import type { Environments } from "../../kernel.ts";
import type { EnvironmentsConfig } from "./environment.ts";
import { isWithin, realPath } from "./folders.ts";
import { listEnvironments } from "./list.ts";
import { createManaged, removeManaged } from "./managed.ts";
import { Remembered } from "./remembered.ts";

/** What options say about environments. */
export function environmentsConfig(options: Options, log: Log): EnvironmentsConfig {
  const { dataDir, sessionsDir, envRoot, env, autoInstallIpykernel, packageIndex, workspace, allowWrite } = options;
  return {
    dataDir,
    envRoot,
    // Sessions elsewhere have no say in which of these is the usual one.
    defaultEnv: env === "wasm" ? undefined : env,
    autoInstallIpykernel,
    packageIndex,
    writableByCode: [sessionsDir ?? join(dataDir, "sessions"), ...(workspace ? [workspace] : []), ...allowWrite],
    protectedFromCode: options.jail === "none" ? [] : vouchedFor(envRoot, workspace, process.env),
    env: process.env,
    remembered: new Remembered(),
    log,
  };
}

/**
 * What the operator vouches for in the folder that code works in: the folder of named environments, and the environment
 * of the terminal that we were started from. A `.venv` that just lies there may have been planted by an earlier session.
 */
function vouchedFor(envRoot: string, workspace: string | undefined, env: NodeJS.ProcessEnv): string[] {
  const inWorkspace = (folder: string) => workspace !== undefined && isWithin(resolve(folder), resolve(workspace));
  // One that is not there yet could be made by code, and be taken for the operator's at the next start.
  if (inWorkspace(envRoot)) mkdirSync(envRoot, { recursive: true, mode: 0o700 });
  const active = [env.VIRTUAL_ENV, env.CONDA_PREFIX].filter((folder) => folder !== undefined && folder !== "");
  return [envRoot, ...active.map(String).filter(inWorkspace)].filter((folder) => existsSync(folder)).map(realPath);
}

/** Environments of a project. Code may not change them, since the operator may use them outside of jails. */
export function projectEnvironments(workspace: string | undefined): string[] {
  if (workspace === undefined) return [];
  return [".venv", "venv", ".pixi"]
    .map((name) => join(resolve(workspace), name))
    .filter((folder) => existsSync(folder));
}

export function createEnvironments(config: EnvironmentsConfig): Environments {
  const { dataDir, env, packageIndex } = config;
  return {
    list: (signal) => listEnvironments(config, signal),
    create: (name, options) => createManaged({ dataDir, name, env, packageIndex, ...options }),
    remove: (name) => removeManaged(dataDir, name),
  };
}
