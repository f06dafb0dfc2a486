/** The lines between our process and the two that make an image. Both are ours, and neither runs a package's code. */

/** To the fetcher: copy what is at this address into a file. */
export interface FetchRequest {
  id: number;
  url: string;
  headers: Record<string, string>;
  /** How long the server may say nothing before we give up on it. */
  quietMs: number;
}

export type FetchAnswer =
  | { id: number; failed?: undefined; status: number; contentType: string; url: string; file: string; sha256: string }
  /** `silent`: nobody answered for too long, which is not worth another try. */
  | { id: number; failed: string; silent: boolean };

/** To the installer, after which it resolves. */
export interface InstallRequest {
  op: "resolve";
  requirements: string[];
  /** `name==version` of what must stay as it is. */
  constraints: string[];
  micropipFile: string;
  /** Wheels, and archives of shared libraries, that are on this machine. */
  folderFiles: string[];
  /** Where the files of Pyodide's lock are; its content is the lock beside Pyodide. */
  distributionUrl: string;
  /** Absent: micropip's own. */
  indexUrl?: string | undefined;
}

export type InstallCommand =
  | InstallRequest
  /** Answers a `fetch`. */
  | { op: "fetched"; id: number; result: FetchResult }
  /** Go on and make the files. */
  | { op: "unpack" };

export type FetchResult =
  | { kind: "file"; status: number; contentType: string; url: string; file: string; sha256: string }
  | { kind: "unreachable"; reason: string };

export type InstallReport =
  /** Python runs; before that, a snapshot can turn out to be of no use. */
  | { type: "ready" }
  | { type: "fetch"; id: number; url: string; page: boolean }
  /** micropip's own index is used; its address is not known before. */
  | { type: "index"; url: string }
  | { type: "progress"; message: string }
  | { type: "resolved"; packages: ResolvedPackage[] }
  | { type: "done" }
  | { type: "failed"; failures: InstallFailure[] };

export interface ResolvedPackage {
  name: string;
  version: string;
  source: "folder" | "distribution" | "index";
  file: string;
  sha256: string;
  requires: string[];
}

/** What stood in the way of one package. */
export interface InstallFailure {
  kind:
    | "requirement"
    | "not_found"
    | "no_version"
    | "no_wheel"
    | "index_unreachable"
    | "distribution_unreachable"
    | "hash"
    | "address"
    | "conflict"
    | "unsafe"
    | "broken";
  name: string;
  /** As it was asked for: `numpy>=1.20`. */
  wanted: string;
  /** Who needed it, the outermost first: `seaborn 0.13.2`. Empty: it was asked for itself. */
  chain: string[];
  detail: string;
}
