/** The line protocol between the server and the two processes that build an image. Neither runs a package's code. */

/** To the fetcher: download this address into a file. */
export interface FetchRequest {
  id: number;
  url: string;
  headers: Record<string, string>;
  /** Timeout while the server sends nothing. */
  quietMs: number;
}

export type FetchAnswer = FetchResult & { id: number };

export type FetchResult =
  | { kind: "file"; status: number; contentType: string; url: string; file: string; sha256: string }
  /** `silent`: the server timed out, so that a retry is not worthwhile. */
  | { kind: "unreachable"; reason: string; silent?: boolean };

/** What the installer is to install. */
export interface InstallRequest {
  requirements: string[];
  /** `name==version` of packages whose version must not change. */
  constraints: string[];
  micropipFile: string;
  /** Local wheels and archives of shared libraries. */
  folderFiles: string[];
  /** Base address of the files in Pyodide's lock. The lock itself is the one beside Pyodide. */
  distributionUrl: string;
  /** Absent: micropip's default. */
  indexUrl?: string | undefined;
}

/** From the installer. Those with an id are questions. */
export type InstallReport =
  /** Python runs, and asks what to install. If the process ends before this, the snapshot may be unusable. */
  | { type: "ready"; id: number }
  | { type: "fetch"; id: number; url: string; page: boolean }
  /** micropip's default index is used; its address is not known earlier. */
  | { type: "index"; url: string }
  | { type: "progress"; message: string }
  /** Answered when they may be unpacked. */
  | { type: "resolved"; id: number; packages: ResolvedPackage[] }
  | { type: "done" }
  | { type: "failed"; failures: InstallFailure[] };

export interface InstallAnswer {
  id: number;
  answer: InstallRequest | FetchResult | true;
}

export interface ResolvedPackage {
  name: string;
  version: string;
  source: "folder" | "distribution" | "index";
  file: string;
  sha256: string;
  requires: string[];
}

/** Why one package cannot be installed. */
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
  /** As requested: `numpy>=1.20`. */
  wanted: string;
  /** The packages that need it, outermost first: `seaborn 0.13.2`. Empty: it was requested directly. */
  chain: string[];
  detail: string;
}
