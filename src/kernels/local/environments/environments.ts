import type { Options } from "../../../options/options.ts";
import { keepProgramsFrom } from "../../../process/programs.ts";
import type { Environments } from "../../kernel.ts";
import { createManaged, removeManaged } from "./create/managed.ts";
import type { EnvironmentsConfig, Vouched } from "./environment.ts";
import { listEnvironments } from "./list.ts";
import { Remembered } from "./probe/remembered.ts";
import { vouch } from "./vouch.ts";

/** The part of the options that concerns environments. */
export function environmentsConfig(
  options: Options,
  { vouched, jail, log }: Pick<EnvironmentsConfig, "vouched" | "jail" | "log">,
): EnvironmentsConfig {
  const { dataDir, envRoot, autoInstallIpykernel, packageIndex, allowEnvPaths } = options;
  return {
    dataDir,
    envRoot,
    defaultEnv: defaultEnvOf(options),
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

/** `wasm` is another backend and no default for local environments. */
function defaultEnvOf({ env }: Options): string | undefined {
  return env === "wasm" ? undefined : env;
}

/** Per app: decided once, before any user code runs. */
const decided = new WeakMap<Options, Vouched>();

/** The vouched environments. With jails, programs that sessions' code can write to are never started from now on. */
export function vouchFor(options: Options): Vouched {
  const known = decided.get(options);
  if (known) return known;
  const vouched = vouch({ ...options, defaultEnv: defaultEnvOf(options), env: process.env });
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
