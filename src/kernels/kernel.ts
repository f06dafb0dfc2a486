import type { CellwrightError } from "../errors.ts";
import type { ExecutionEvent, Language, Variables } from "../execution.ts";
import type { Mirror } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** One running interpreter. Every backend passes `test/contracts/kernel.ts`. */
export interface Kernel {
  readonly info: KernelInfo;

  /** Resolves once, when the interpreter is gone, with a reason a user can read. Never rejects. */
  readonly closed: Promise<{ reason: string }>;

  /**
   * Runs one cell. Events come in the order things happened and end with `done`; an exception in the cell is an event.
   * Throws only if the kernel itself broke. One cell at a time: the caller waits for `done` before the next.
   */
  execute(code: string, options?: ExecuteOptions): AsyncIterable<ExecutionEvent>;

  /** Asks the running cell to stop and keeps variables if it does. Absent: this kernel can only be disposed. */
  interrupt?(): Promise<void>;

  /** It ends a cell at `timeoutMs` by itself, and is given so much longer before anybody else does. */
  readonly ownTimeLimit?: { slackMs: number };

  /** Looks at variables without running user code. Throws `kernel_busy` where a running cell is in the way. */
  inspect?(query: Inspection): Promise<Variable[]>;

  /** Makes importable what this cell imports and lacks. Throws `package_error`: then the cell must not be run. */
  prepare?(code: string, options: PrepareOptions): Promise<Preparation | undefined>;

  /** Makes packages importable, at once and for this kernel only. Throws `package_error`. Absent: it cannot. */
  install?(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]>;

  /** Ends the interpreter and all it started. Can be called twice and in mid-cell, never throws, ends within 5 s. */
  dispose(): Promise<void>;
}

export interface ExecuteOptions {
  /** Values put into the namespace beside the code, never pasted into it. */
  variables?: Variables;
  /** Leaves no trace: no execution count, no `_`. */
  silent?: boolean;
  /** For kernels with a time limit of their own. */
  timeoutMs?: number;
  /** The code is a program of its own, not a cell of a notebook. */
  script?: ScriptOptions | undefined;
  /** The value of the last expression is told as JSON, too: as a form of the result (`VALUE_KIND`). */
  value?: JsonStyle | undefined;
  /**
   * Lines of a Python cell that are shell commands are run by a shell: `run`. `again`: they have been, in another kernel;
   * of what they did only the change of directory is done again. Kernels without a shell take no notice.
   */
  commands?: "run" | "again" | undefined;
  /**
   * Said and done as in IPython without us: its tracebacks, its refusal of `input()`, magics without a mark. Kernels
   * without IPython take no notice.
   */
  classic?: boolean | undefined;
  /**
   * Output of this cell that arrived after its `done`, from a task it left behind. Kernels keep it for many cells: it
   * must not hold on to what a cell was given or has shown.
   */
  onLate?: (event: ExecutionEvent) => void;
  /** Asks the user what `input()` asks for; undefined when they decline. Absent: `input()` is refused. */
  onInput?: (request: InputRequest) => Promise<string | undefined>;
}

/** How a program of its own is run. */
export interface ScriptOptions {
  /** What tracebacks call its file. They have no hints of ours then. */
  filename: string;
}

export interface JsonStyle {
  /** Spaces for each level; 0: all on one line. */
  indent: number;
  /** `"NaN"` in quotation marks, as JSON has no such numbers. */
  quoteNonFinite: boolean;
}

/** The kind of form in a result's bundle that a `JsonStyle` adds: a `JsonValue`. */
export const VALUE_KIND = "application/vnd.cellwright.value+json";

export interface JsonValue {
  text: string;
  isString: boolean;
}

export interface InputRequest {
  prompt: string;
  /** What is typed is not to be shown: `getpass`. */
  secret: boolean;
}

export interface InstallOptions {
  signal: AbortSignal;
  progress?: (message: string) => void;
}

export interface PrepareOptions extends InstallOptions {
  /**
   * `needed`: the cell is not run without what it imports. `guessed`: what it imports counts where it declares nothing
   * in a script block, and what cannot be had is left to the cell to miss. `ignored`: nothing is installed for them.
   */
  imports?: "needed" | "guessed" | "ignored" | undefined;
  /** As in `ExecuteOptions`. */
  commands?: boolean | undefined;
  classic?: boolean | undefined;
}

/** What was done for one cell. */
export interface Preparation {
  /** Requirements that it brought with it and that were installed for it, in its own words. */
  installed: string[];
  /** Why something that it imports could not be had. `isKnown`: there certainly is such a package. */
  missed?: { error: CellwrightError; isKnown: boolean } | undefined;
}

export interface InstalledPackage {
  name: string;
  version: string;
  /** Another version is loaded in the kernel, which goes on with that one until it is restarted. */
  outdated?: boolean;
}

export interface KernelInfo {
  /** The provider's name: `wasm`, `local`, … */
  provider: string;
  language: Language;
  /** For people and models: `Python 3.14.2 (Pyodide, WebAssembly)`. */
  description: string;
  /** Where its cells find the session's folder, if not at its own path. */
  workingDir?: string;
  /** What stands between this kernel and the machine, one short phrase a wall. Empty: nothing does. */
  walls: string[];
  /** The one of several backends that its variables are on; absent while it has none. */
  place?: string | undefined;
  /** What is not as its users would expect, as sentences: a slow start and why, a limit that could not be set. */
  notes?: string[];
}

/** What a caller asks for. */
export interface KernelSpec {
  language: Language;
  env?: string;
}

/** A place with an interpreter that sessions can run in. */
export interface Environment {
  /** What `env` calls it. */
  name: string;
  /** `managed`, `venv`, `conda`, `pixi`, `kernelspec`, `system`, `wasm`. */
  kind: string;
  path: string;
  python?: string;
  /** Those that matter, `numpy 2.4.6`. */
  packages: string[];
  /** Why no session can run in it now, and the command that mends it. Absent: it is ready. */
  obstacle?: string;
  /** Sessions that do not choose get this one. */
  isDefault?: boolean;
}

/** One environment, looked at: its interpreter, and why no kernel can be started with that. */
export interface EnvironmentLook {
  kind: string;
  path: string;
  /** Where it is, or would be. */
  python: string;
  obstacle?: { kind: "no_python" | "no_answer" | "no_ipykernel" | "other"; message: string; hint: string };
}

/** A kernel of an earlier run of this program that is still alive. */
export interface AdoptedKernel {
  kernel: Kernel;
  /** Its newest cell: what that showed from the beginning, and shows from now on until it is done. */
  newestCell?: { code: string; events: AsyncIterable<ExecutionEvent> };
}

export interface StartOptions {
  sessionId: string;
  /** The name that the session was given, if it was. */
  sessionName?: string | undefined;
  /** Whose session it is. Two owners may give the same name. */
  owner?: string | undefined;
  /** The session's folder on this machine, which becomes the kernel's working directory. */
  workspaceDir: string;
  /** A folder for the kernel's own temporary things, private to this session; removed by its owner, not by the kernel. */
  runDir: string;
  signal: AbortSignal;
  /** Called with a short phrase while a slow start goes on (building a snapshot, installing). */
  progress?: (message: string) => void;
}

/** How long a kernel that lost its server waits for another one, where sessions live for ever. */
export const ORPHAN_TTL_MS = 86_400_000;

/** The id and the folders of a session to come. Folders that are not there yet are made. */
export type WarmSlot = Pick<StartOptions, "sessionId" | "workspaceDir" | "runDir">;

/** Where kernels come from. */
export interface KernelProvider {
  readonly name: string;
  /** The kernels that `start` can give, without starting one. */
  list(signal: AbortSignal): Promise<KernelInfo[]>;
  /** Resolves with a kernel that is ready for a cell. Aborting leaves nothing behind. */
  start(spec: KernelSpec, options: StartOptions): Promise<Kernel>;
  /**
   * Makes a kernel ready in advance for a session that does not exist yet. Its rights are fixed to these folders, so
   * only a `start` for that session id takes it, once. Returns at once; a failure means that `start` begins anew.
   */
  warm?(slot: WarmSlot): void;
  /** The live kernel that an earlier run of this program left behind in these folders, if there is one. */
  adopt?(language: Language, options: StartOptions): Promise<AdoptedKernel | undefined>;
  /** A session's files, where they are not in its workspace folder on this machine. */
  workspace?(sessionId: string): Workspace;
  /** The folder in which a session's folder is, with those of others, where that is on another machine. */
  surroundings?(sessionId: string): Workspace;
  /** Where else what is kept of sessions lives. */
  readonly mirror?: Mirror;
  /** The places that kernels are spread over, where there are several. */
  readonly backends?: Backends;
  /** The environments that `env` can name. */
  environments?(signal: AbortSignal): Promise<Environment[]>;
  /** The one that `env` means, or the default one; asked, and given ipykernel where that is allowed. Never rejects. */
  environment?(env: string | undefined, options: InstallOptions): Promise<EnvironmentLook>;
  /** Whether both mean the same environment; undefined means the default one. Starts nothing. Absent: by their names. */
  sameEnvironment?(one: string | undefined, other: string | undefined): Promise<boolean>;
  dispose(): Promise<void>;
}

/** Places that work is spread over. */
export interface Backends {
  status(): BackendsStatus;
  /** No new sessions there from now on, or again. False: there is no such backend. */
  drain(name: string, draining: boolean): boolean;
}

/** As the load balancer that we replace has it: a name is a port where all are on one host, else `host:port`. */
export interface BackendsStatus {
  ports: Record<
    string,
    {
      status: "idle" | "busy" | "error" | "draining";
      /** That run a cell now. */
      active_sessions: number;
      /** Failures in a row. */
      error_count: number;
      /** An ISO time, or `never`. */
      last_used: string;
    }
  >;
  total_sessions: number;
}

/** The environments of this machine, for those who look after them; those that Cellwright makes are managed. */
export interface Environments {
  list(signal: AbortSignal): Promise<Environment[]>;
  /** Makes a managed environment, or adds packages that it lacks. Throws `env_error` and leaves no half of one. */
  create(name: string | undefined, options: CreateOptions): Promise<CreatedEnvironment>;
  /** Removes a managed one, and returns its folder. */
  remove(name: string | undefined): Promise<string>;
}

export interface CreateOptions {
  /** Besides those that each managed environment has. */
  packages: string[];
  signal: AbortSignal;
  /** How far it is, from 0 to 1, and what is being done, in a few words. */
  progress: (state: { fraction: number; message: string }) => void;
}

export interface CreatedEnvironment {
  folder: string;
  /** `3.11.7`. */
  version: string;
  /** What was installed now; empty when all was there. */
  installed: string[];
}

/** Sets of packages that a provider keeps unpacked for its kernels. */
export interface PackageImages {
  list(): Promise<PackageImage[]>;
  /** Removes those that nobody asked for in so long, and returns them. */
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
  /** A bounded piece of the value as text; for one variable asked by name, more of it. */
  summary: string;
  /** Number of elements, where the value has one. */
  length?: number;
  shape?: number[];
  dtype?: string;
  sizeBytes?: number;
  /** Columns, fields or keys, bounded; only for one variable asked by name. */
  members?: string[];
}
