import type { FoundIsolation } from "../../../isolation/isolation.ts";
import type { Log } from "../../../log.ts";
import type { CodeReach } from "../../../reach/code-reach.ts";
import type { Identity } from "../../../reach/way.ts";
import type { Remembered } from "./probe/remembered.ts";

/** The origin of an environment, which determines the commands that change it. */
export type EnvironmentKind = "managed" | "venv" | "conda" | "pixi" | "kernelspec" | "system";

/** A usable Python environment: its interpreter runs and has ipykernel. */
export interface PythonEnvironment {
  /** As given in `env`: a name or a path. */
  name: string;
  kind: EnvironmentKind;
  /** The interpreter's path in its environment. Symlinks are not resolved: their location identifies a venv. */
  python: string;
  /** `sys.prefix` and `sys.base_prefix`. */
  prefix: string;
  basePrefix: string;
  /** `3.11.7`. */
  version: string;
  /** The version of ipykernel, `7.4.0`. */
  ipykernel: string;
  /** Versions of notable installed packages, by distribution name. */
  packages: Record<string, string>;
  /**
   * Absolute paths that a process with this interpreter must be able to read besides the system's: the environment,
   * its base installation, the folders that symlinks to the interpreter pass through, and editable installs.
   */
  readPaths: string[];
  /** Session folders that contain parts of it: sessions see them anyway, other jails have to mount them. */
  within?: string[];
  /**
   * Why its code may run only in a session's jail, as a phrase: it is not vouched for, or code can write to its import
   * path. Absent: it may run outside, so a zygote is possible.
   */
  coldReason?: string | undefined;
}

/** Configuration of environment discovery; created once by the provider. */
export interface EnvironmentsConfig {
  dataDir: string;
  /** Folder of environments known by name: --env-root. */
  envRoot: string;
  /** --env. Default: `managed`. */
  defaultEnv?: string | undefined;
  autoInstallIpykernel: boolean;
  /** --package-index. Default: the configuration of pip or uv. */
  packageIndex?: string | undefined;
  /** The vouched environments, and what code can change. */
  vouched: Vouched;
  /** Whether a caller may give a path that is not vouched for. Its interpreter runs in jails only. */
  allowPaths: boolean;
  /** The isolation of probed interpreters. `isOff`: --jail none. */
  jail: { isOff: boolean; isolation(): Promise<FoundIsolation> };
  /** The server's environment variables. */
  env: NodeJS.ProcessEnv;
  /** The base of relative paths and of the search for a pixi project. Default: the server's working directory. */
  workingDir?: string;
  /** `new Remembered()`, kept as long as the provider. */
  remembered: Remembered;
  log: Log;
}

/**
 * The environments that the operator vouches for: managed ones, --env, --env-root, the active one, and those that were
 * in the workspace before its first use. Decided once, before any code runs. Identified by device and inode.
 */
export interface Vouched {
  /** What code can change. */
  reach: CodeReach;
  /** Real paths that are read-only in every jail and rejected by every tool that writes. */
  protectedPaths: string[];
  /** Their folders, at start. */
  folders: string[];
  /** Identities of single environments. */
  single: Set<Identity>;
  /** Folders whose environments are all vouched for. */
  roots: Set<Identity>;
  /** Folders that code can write to and sees at their host paths, with the environments in them. */
  visible: string[];
  /** Folders that code never sees; environments in them cannot be given by path. */
  hidden: string[];
}

/** Whether an environment's code may run outside a session's jail; if not, why, as a phrase. */
export type Judgement = { isVouched: true; why?: undefined } | { isVouched: false; why: string };

export interface FindOptions {
  signal?: AbortSignal;
  /** Called with a short phrase during slow steps. */
  progress?: ((message: string) => void) | undefined;
}

/** The managed environment if it has been created, else the Python of the server's terminal. Not a folder's name. */
export const USUAL = ":usual";

/** The default name of `cellwright env create`. */
export const MANAGED = "managed";
