/** What an interpreter says about itself. */
export interface Interpreter {
  /** `sys.executable`: another than the one asked where that only leads to it, like a shim of pyenv. */
  python: string;
  prefix: string;
  basePrefix: string;
  version: string;
  /** What `sys.path` will be, the absolute ones, with the folders that plain lines of .pth files name. */
  path: string[];
  /** Absolute paths that the modules of its .pth files speak of, such as projects that are installed in place. */
  places: string[];
  /** Its .pth files. */
  pathFiles: string[];
  /** Versions by normalised name, `scikit-learn`. */
  distributions: Record<string, string>;
  hasIpykernel: boolean;
  hasPip: boolean;
  /** The system's package manager owns it: pip refuses to install (PEP 668). */
  isExternallyManaged: boolean;
}

/** What it said, or why there is no answer. */
export type Answer = { interpreter: Interpreter } | { failure: string; timedOut: boolean };
