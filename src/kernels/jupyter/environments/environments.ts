import type { Options } from "../../../options.ts";
import { keepProgramsFrom } from "../../../programs.ts";
import type { Environments } from "../../kernel.ts";
import type { EnvironmentsConfig, Vouched } from "./environment.ts";
import { listEnvironments } from "./list.ts";
import { createManaged, removeManaged } from "./managed.ts";
import { Remembered } from "./remembered.ts";
import { vouch } from "./vouch.ts";

/** What options say about environments. */
export function environmentsConfig(
  options: Options,
  { vouched, jail, log }: Pick<EnvironmentsConfig, "vouched" | "jail" | "log">,
): EnvironmentsConfig {
  const { dataDir, envRoot, env, autoInstallIpykernel, packageIndex, allowEnvPaths } = options;
  return {
    dataDir,
    envRoot,
    // Sessions elsewhere have no say in which of these is the usual one.
    defaultEnv: env === "wasm" ? undefined : env,
    autoInstallIpykernel,
    packageIndex,
    vouched,
    allowPaths: allowEnvPaths,
    jail,
    env: process.env,
    remembered: new Remembered(),
    log,
  };
}

/** By the options of an app: decided once, before any of its code runs. */
const decided = new WeakMap<Options, Vouched>();

/** What the operator vouches for by these options. From then on nothing is started from where their code can write. */
export function vouchFor(options: Options): Vouched {
  const known = decided.get(options);
  if (known) return known;
  const { dataDir, sessionsDir, envRoot, env, workspace, allowWrite, filesDir } = options;
  const defaultEnv = env === "wasm" ? undefined : env;
  const vouched = vouch({
    dataDir,
    sessionsDir,
    envRoot,
    defaultEnv,
    workspace,
    allowWrite,
    filesDir,
    env: process.env,
  });
  decided.set(options, vouched);
  if (options.jail !== "none") keepProgramsFrom(vouched.reach);
  return vouched;
}

export function createEnvironments(config: EnvironmentsConfig): Environments {
  const { dataDir, env, packageIndex } = config;
  return {
    list: (signal) => listEnvironments(config, signal),
    create: (name, options) => createManaged({ dataDir, name, env, packageIndex, ...options }),
    remove: (name) => removeManaged(dataDir, name),
  };
}
