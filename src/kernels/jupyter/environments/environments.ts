import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Log } from "../../../log.ts";
import type { Options } from "../../../options.ts";
import type { Environments } from "../../kernel.ts";
import type { EnvironmentsConfig } from "./environment.ts";
import { realPath } from "./folders.ts";
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
    protectedFromCode: options.jail === "none" ? [] : environmentFolders(envRoot, workspace),
    env: process.env,
    remembered: new Remembered(),
    log,
  };
}

/**
 * Where environments lie that were there before any code ran here, even if that is in the folder that code works in.
 * Without this, a project's own `.venv` could not be used in that project.
 */
function environmentFolders(envRoot: string, workspace: string | undefined): string[] {
  const inProject = workspace ? [".venv", "venv", ".pixi"].map((name) => join(workspace, name)) : [];
  return [envRoot, ...inProject].filter((folder) => existsSync(folder)).map((folder) => realPath(resolve(folder)));
}

export function createEnvironments(config: EnvironmentsConfig): Environments {
  const { dataDir, env, packageIndex } = config;
  return {
    list: (signal) => listEnvironments(config, signal),
    create: (name, options) => createManaged({ dataDir, name, env, packageIndex, ...options }),
    remove: (name) => removeManaged(dataDir, name),
  };
}
