import type { Log } from "../../../log.ts";
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
   * Absolute folders that a process with this interpreter must be able to read: both prefixes, what links on the way
   * to the interpreter pass through, and folders elsewhere that its path names. The system's own may be among them.
   */
  readPaths: string[];
  /**
   * Folders of its `sys.path` that code of sessions can write, such as a project of --workspace that is installed in
   * place. Nothing may be imported from them outside the jail.
   */
  writablePaths: string[];
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
  /**
   * Folders that code of sessions can write: the data folder's sessions, --workspace, --allow-write. An interpreter
   * from there is started only if it is --env itself: asking it for its version would run code outside the jail.
   */
  writableByCode: string[];
  /** Real paths of folders below those which code can not write all the same: jails show them read-only. */
  protectedFromCode?: string[] | undefined;
  /** Of this program. */
  env: NodeJS.ProcessEnv;
  /** Where relative paths and the project of pixi are looked for. Otherwise the working directory of this program. */
  workingDir?: string;
  /** `new Remembered()`, kept as long as the provider. */
  remembered: Remembered;
  log: Log;
}

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
