import type { FoundIsolation } from "../../../jail/isolation.ts";
import type { Log } from "../../../log.ts";
import type { CodeReach } from "../../../reach/code-reach.ts";
import type { Identity } from "../../../reach/way.ts";
import type { Remembered } from "./remembered.ts";

/** Where an environment comes from, and so which command changes it. */
export type EnvironmentKind = "managed" | "venv" | "conda" | "pixi" | "kernelspec" | "system";

/** A Python that a kernel can be started with: it runs, and ipykernel is in it. */
export interface PythonEnvironment {
  /** What `env` calls it: a name, or the path it was asked by. */
  name: string;
  kind: EnvironmentKind;
  /** The interpreter, in its environment: links are not followed, since a venv is found by where its link lies. */
  python: string;
  /** `sys.prefix` and `sys.base_prefix`. */
  prefix: string;
  basePrefix: string;
  /** `3.11.7`. */
  version: string;
  /** The version of ipykernel, `7.4.0`. */
  ipykernel: string;
  /** Packages of interest that are installed, by their distribution's name, with versions. */
  packages: Record<string, string>;
  /**
   * Absolute paths that a process with this interpreter must be able to read beside the system's: the environment, its
   * base installation, what links on the way to the interpreter pass through, and projects installed in place.
   */
  readPaths: string[];
  /** Folders that sessions see anyway and that parts of it lie in: others have to be shown them. */
  within?: string[];
  /**
   * Why nothing of it may run outside of a session's jail, as a phrase: nobody vouched for it, or code can write to
   * something on its path. Absent: it may.
   */
  coldReason?: string | undefined;
}

/** What finding environments needs to know; made once by the provider. */
export interface EnvironmentsConfig {
  dataDir: string;
  /** Folder of environments known by name: --env-root. */
  envRoot: string;
  /** The environment of those who do not choose: --env. Otherwise `managed`. */
  defaultEnv?: string | undefined;
  autoInstallIpykernel: boolean;
  /** --package-index, for what is installed. Otherwise what pip or uv are configured for. */
  packageIndex?: string | undefined;
  /** What the operator vouches for, and what code can change. */
  vouched: Vouched;
  /** Whether a caller may name an environment by a path that nobody vouched for. It is started in the session's jail. */
  allowPaths: boolean;
  /** How interpreters are isolated that are asked. `isOff`: --jail none. */
  jail: { isOff: boolean; isolation(): Promise<FoundIsolation> };
  /** Of this program. */
  env: NodeJS.ProcessEnv;
  /** Where relative paths and the project of pixi are looked for. Otherwise the working directory of this program. */
  workingDir?: string;
  /** `new Remembered()`, kept as long as the provider. */
  remembered: Remembered;
  log: Log;
}

/**
 * The environments that the operator vouches for: managed ones, --env, --env-root, the active one, and those that a
 * project had before code worked in it. Decided once, before any code runs; known by what their folders are.
 */
export interface Vouched {
  /** What code can change. */
  reach: CodeReach;
  /** Real paths that are read-only in every jail and refused by every tool that writes. */
  protectedPaths: string[];
  /** Their folders, at start. */
  folders: string[];
  /** What these are. */
  single: Set<Identity>;
  /** Folders in which every environment is the operator's. */
  roots: Set<Identity>;
  /** Folders that code can write and sees at their own paths: an environment in there is shown by them. */
  visible: string[];
  /** Folders that code never sees, whatever is allowed; environments in them are not named by path. */
  hidden: string[];
}

/** Whether something of an environment may run outside of a session's jail; if not, why, as a phrase. */
export type Judgement = { isVouched: true; why?: undefined } | { isVouched: false; why: string };

export interface FindOptions {
  signal?: AbortSignal;
  /** Called with a short phrase while something slow goes on. */
  progress?: ((message: string) => void) | undefined;
}

/**
 * The managed environment where that has been created, else the Python that a terminal here would start. No folder is
 * called so.
 */
export const USUAL = ":usual";

/** The name of the environment that `cellwright env create` makes unless told otherwise. */
export const MANAGED = "managed";
