/** Settings without a flag: native use has one fixed value, a toolset may set another. */
export interface EngineSettings {
  /** Folder of sessions and their files. Default: in the data folder. */
  sessionsDir?: string | undefined;
  /** Folder of session files and history on a Jupyter server, relative to its user's home. */
  notebooksFolder: string;
  /** Send the session's own name to the sandboxes of a pool, so that other clients can share it. */
  plainNames: boolean;
  /** Serve older clients without transport sessions; they get no notifications. */
  stateless: boolean;
  maxRequestMb: number;
  /** The path at which code in namespaces sees its workspace ends in the session's id. */
  namedWorkspaces: boolean;
}

export const engineDefaults: EngineSettings = {
  sessionsDir: undefined,
  notebooksFolder: "cellwright",
  plainNames: false,
  stateless: false,
  maxRequestMb: 64,
  namedWorkspaces: false,
};
