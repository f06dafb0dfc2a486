/** What a probe reports about an interpreter. */
export interface Interpreter {
  /** The path that was probed, not what the interpreter reports. */
  python: string;
  prefix: string;
  basePrefix: string;
  version: string;
  /** The future `sys.path`, absolute paths only, including the folders from plain lines of .pth files. */
  path: string[];
  /** Absolute paths in the modules that its .pth files import, such as editable installs. */
  places: string[];
  /** Its .pth files. */
  pathFiles: string[];
  /** Versions by normalized name, `scikit-learn`. */
  distributions: Record<string, string>;
  hasIpykernel: boolean;
  hasPip: boolean;
  /** The system's package manager owns it: pip refuses to install (PEP 668). */
  isExternallyManaged: boolean;
}

/** The probe's result, or why it failed. */
export type Answer = { interpreter: Interpreter } | { failure: string; timedOut: boolean };
