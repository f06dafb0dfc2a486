/** What a jailed process may touch. Everything that is not named here is out of its reach, the network included. */
export interface Jail {
  /** Files and folders it may read, by the path it sees them at. */
  readOnly: Mount[];
  /** Folders it may change as well. */
  readWrite: Mount[];
  /** Its whole environment. */
  env: Record<string, string>;
  workingDir: string;
}

export interface Mount {
  from: string;
  at: string;
}

/** Whether a kernel is jailed: when it can be, always (or not started), never. */
export type JailMode = "auto" | "bwrap" | "none";
