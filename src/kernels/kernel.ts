import type { CellwrightError } from "../errors.ts";
import type { ExecutionEvent, Language, Variables } from "../execution.ts";
import type { Mirror } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";

/**
 * One running interpreter. `test/contracts/kernel.ts` is the contract for Python, `test/contracts/bash.ts` for shells.
 * `test/kernels/contract` runs them on every backend, through its provider, and names what a backend cannot do.
 */
export interface Kernel {
  readonly info: KernelInfo;

  /** Resolves once, when the interpreter is gone, with a human-readable reason. Never rejects. */
  readonly closed: Promise<{ reason: string }>;

  /**
   * Runs one cell. Events come in order and end with `done`; an exception in the cell is an event. Throws only if the
   * kernel itself failed. One cell at a time: the caller waits for `done` before the next.
   */
  execute(code: string, options?: ExecuteOptions): AsyncIterable<ExecutionEvent>;

  /**
   * Resolves when it is known whether the interpreter still exists; if not, `closed` has resolved, too. Rejects when
   * `signal` aborts. Absent: that is always known.
   */
  settled?(signal: AbortSignal): Promise<void>;

  /** Asks the running cell to stop; variables are kept if it does. Absent: this kernel can only be disposed. */
  interrupt?(): Promise<void>;

  /** The kernel enforces `timeoutMs` itself; the session waits this much longer before it stops the cell. */
  readonly ownTimeLimit?: { slackMs: number };

  /** Inspects variables without running user code. Throws `kernel_busy` if a running cell prevents it. */
  inspect?(query: Inspection): Promise<Variable[]>;

  /** Installs what this cell imports and lacks. Throws `package_error`: then the cell must not be run. */
  prepare?(code: string, options: PrepareOptions): Promise<Preparation | undefined>;

  /** Makes packages importable, for this kernel only. Throws `package_error`. Absent: not supported. */
  install?(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]>;

  /** Ends the interpreter and all its processes. Idempotent, possible in mid-cell, never throws, takes at most 5 s. */
  dispose(): Promise<void>;
}

export interface ExecuteOptions {
  /** Values to define in the namespace; never pasted into the code. */
  variables?: Variables;
  /** Leaves no trace: no execution count, no `_`. */
  silent?: boolean;
  /** For kernels that enforce a time limit themselves. */
  timeoutMs?: number;
  /** The code is a script, not a notebook cell. */
  script?: ScriptOptions | undefined;
  /** Also return the last expression's value as JSON, as an entry of the result (`VALUE_KIND`). */
  value?: JsonStyle | undefined;
  /** Run lines of a Python cell that are shell commands in a shell. Kernels without a shell ignore it. */
  commands?: boolean | undefined;
  /** The cell is being replayed: of shell commands, only a change of directory is repeated. */
  replay?: boolean | undefined;
  /** Behave as plain IPython: its tracebacks, its refusal of `input()`, magics without `%`. Others ignore it. */
  classic?: boolean | undefined;
  /**
   * Called with late output of this cell. Kernels keep it for many cells, so it must not hold the cell's arguments or
   * outputs in memory.
   */
  onLate?: (event: ExecutionEvent) => void;
  /** Asks the user for `input()`; undefined when they decline. Absent: `input()` is refused. */
  onInput?: (request: InputRequest) => Promise<string | undefined>;
}

/** How a script is run. */
export interface ScriptOptions {
  /** Its file name in tracebacks, which then have no hints from Cellwright. */
  filename: string;
}

export interface JsonStyle {
  /** Spaces per level; 0: all on one line. */
  indent: number;
  /** Write `"NaN"` as a string, since JSON has no such number. */
  quoteNonFinite: boolean;
}

/** MIME type that a `JsonStyle` adds to a result's bundle: a `JsonValue`. */
export const VALUE_KIND = "application/vnd.cellwright.value+json";

export interface JsonValue {
  text: string;
  isString: boolean;
}

export interface InputRequest {
  prompt: string;
  /** Do not echo the input: `getpass`. */
  secret: boolean;
}

export interface InstallOptions {
  signal: AbortSignal;
  progress?: (message: string) => void;
}

export interface PrepareOptions extends InstallOptions {
  /**
   * `needed`: the cell does not run if an import cannot be installed. `guessed`: imports count unless a script block
   * declares dependencies, and those that cannot be installed are left to fail in the cell. `ignored`: nothing is
   * installed for imports.
   */
  imports?: "needed" | "guessed" | "ignored" | undefined;
  /** As in `ExecuteOptions`. */
  commands?: boolean | undefined;
  classic?: boolean | undefined;
}

/** What was installed for one cell. */
export interface Preparation {
  /** Requirements that were installed for the cell, declared or imported. */
  installed: string[];
  /** Why an import could not be installed. `isKnown`: the package certainly exists. */
  missed?: { error: CellwrightError; isKnown: boolean } | undefined;
}

export interface InstalledPackage {
  name: string;
  version: string;
  /** Another version is loaded in the kernel, and stays until a restart. */
  outdated?: boolean;
}

export interface KernelInfo {
  /** The provider's name: `wasm`, `local`, … */
  provider: string;
  language: Language;
  /** For people and models: `Python 3.14.2 (Pyodide, WebAssembly)`. */
  description: string;
  /** The session's folder as its cells see it, if the path differs. */
  workingDir?: string;
  /** Isolation layers between this kernel and the machine, one short phrase each. Empty: not isolated. */
  layers: string[];
  /** The pool backend that holds its variables; absent while it has none. */
  place?: string | undefined;
  /** Unexpected conditions, as sentences: why a start was slow, a limit that could not be set. */
  notes?: string[];
}

/** The kernel that a caller asks for. */
export interface KernelSpec {
  language: Language;
  env?: string;
}

/** A Python environment that sessions can run in. */
export interface Environment {
  /** Its name for `env`. */
  name: string;
  /** `managed`, `venv`, `conda`, `pixi`, `kernelspec`, `system`, `wasm`. */
  kind: string;
  path: string;
  python?: string;
  /** The relevant ones, such as `numpy 2.4.6`. */
  packages: string[];
  /** Why no session can run in it now, and the command that fixes it. Absent: it is ready. */
  obstacle?: string;
  /** The default for sessions. */
  isDefault?: boolean;
}

/** An examined environment: its interpreter, and why no kernel can be started in it. */
export interface EnvironmentLook {
  kind: string;
  path: string;
  /** Its interpreter's path, even if it does not exist. */
  python: string;
  obstacle?: { kind: "no_python" | "no_answer" | "no_ipykernel" | "other"; message: string; hint: string };
}

/** A kernel of a previous server process that is still alive. */
export interface AdoptedKernel {
  kernel: Kernel;
  /** Its newest cell: all output from its start on, until it is done. */
  newestCell?: { code: string; events: AsyncIterable<ExecutionEvent> };
}

export interface StartOptions {
  sessionId: string;
  /** The session's name, if it has one. */
  sessionName?: string | undefined;
  /** The session's owner. Two owners may use the same name. */
  owner?: string | undefined;
  /** The session's folder on this machine: the kernel's working directory. */
  workspaceDir: string;
  /** For the kernel's temporary files, private to this session; removed by the session, not by the kernel. */
  runDir: string;
  signal: AbortSignal;
  /** Called with a short phrase during a slow start (building a snapshot, installing). */
  progress?: (message: string) => void;
}

/** How long an orphaned kernel waits for a new server, if sessions never expire. */
export const ORPHAN_TTL_MS = 86_400_000;

/** Id and folders of a future session. Missing folders are created. */
export type WarmSlot = Pick<StartOptions, "sessionId" | "workspaceDir" | "runDir">;

/** Starts the kernels of a backend. */
export interface KernelProvider {
  readonly name: string;
  /** The kernels that `start` can provide, without starting one. */
  list(signal: AbortSignal): Promise<KernelInfo[]>;
  /** Resolves with a kernel that is ready for a cell. Aborting leaves nothing behind. */
  start(spec: KernelSpec, options: StartOptions): Promise<Kernel>;
  /**
   * Prepares a kernel in advance for a future session. Its sandbox is limited to these folders, so only one `start` for
   * that session id can use it. Returns at once; after a failure `start` does a cold start.
   */
  warm?(slot: WarmSlot): void;
  /** Adopts the live kernel that a previous server process left in these folders, if any. */
  adopt?(language: Language, options: StartOptions): Promise<AdoptedKernel | undefined>;
  /** A session's files, if they are not in its local workspace folder. */
  workspace?(sessionId: string): Workspace;
  /** The folder that contains session folders, if that is on another machine. */
  parentFolder?(sessionId: string): Workspace;
  /** A copy of the store on another machine. */
  readonly mirror?: Mirror;
  /** The backends that sessions are spread over, if there are several. */
  readonly backends?: Backends;
  /** The environments that `env` can name. */
  environments?(signal: AbortSignal): Promise<Environment[]>;
  /** Examines the environment named `env`, or the default; installs ipykernel where that is allowed. Never rejects. */
  environment?(env: string | undefined, options: InstallOptions): Promise<EnvironmentLook>;
  /** Whether both name the same environment; undefined: the default one. Starts nothing. Absent: names are compared. */
  sameEnvironment?(one: string | undefined, other: string | undefined): Promise<boolean>;
  dispose(): Promise<void>;
}

/** Backends that sessions are spread over. */
export interface Backends {
  status(): BackendsStatus;
  /** Stops or resumes new sessions there. False: no such backend. */
  drain(name: string, draining: boolean): boolean;
}

/** In the format of the original load balancer: a name is a port if all are on one host, otherwise `host:port`. */
export interface BackendsStatus {
  ports: Record<
    string,
    {
      status: "idle" | "busy" | "error" | "draining";
      /** Sessions with a running cell. */
      active_sessions: number;
      /** Consecutive failures. */
      error_count: number;
      /** An ISO time, or `never`. */
      last_used: string;
    }
  >;
  total_sessions: number;
}

/** The environments of this machine, for the `env` command; those that Cellwright creates are managed. */
export interface Environments {
  list(signal: AbortSignal): Promise<Environment[]>;
  /** Creates a managed environment, or adds missing packages. Throws `env_error` and leaves no partial one. */
  create(name: string | undefined, options: CreateOptions): Promise<CreatedEnvironment>;
  /** Removes a managed environment, and returns its folder. */
  remove(name: string | undefined): Promise<string>;
}

export interface CreateOptions {
  /** In addition to those of every managed environment. */
  packages: string[];
  signal: AbortSignal;
  /** Progress from 0 to 1, and the current step in a few words. */
  progress: (state: { fraction: number; message: string }) => void;
}

export interface CreatedEnvironment {
  folder: string;
  /** `3.11.7`. */
  version: string;
  /** Newly installed packages; empty if all were present. */
  installed: string[];
}

/** Package images that a provider keeps for its kernels. */
export interface PackageImages {
  list(): Promise<PackageImage[]>;
  /** Removes images that were unused for that long, and returns them. */
  prune(options: { unusedForMs: number }): Promise<PackageImage[]>;
  dispose(): Promise<void>;
}

export interface PackageImage {
  id: string;
  packages: InstalledPackage[];
  sizeBytes: number;
}

/** All variables, or one of them in more detail. */
export type Inspection = { name?: undefined; limit: number } | { name: string; maxChars: number };

export interface Variable {
  name: string;
  type: string;
  /** Beginning of the value as text; longer for a single variable. */
  summary: string;
  /** Number of elements, if the value has a length. */
  length?: number;
  shape?: number[];
  dtype?: string;
  sizeBytes?: number;
  /** Columns, fields or keys, bounded; only for a single variable. */
  members?: string[];
}
