import environments from "./environments.ts";
import execute from "./execute.ts";
import files from "./files/files.ts";
import hostFiles from "./files/host-files.ts";
import inspect from "./inspect.ts";
import packages from "./packages.ts";
import sessions from "./sessions.ts";
import type { Tool } from "./tool.ts";

export interface ToolGroup {
  name: "core" | "files" | "inspect" | "env";
  /** For the docs and for `--caps`. */
  summary: string;
  tools: Tool[];
}

/** All tools, in the order a reader should meet them. */
export const toolGroups: ToolGroup[] = [
  { name: "core", summary: "Run code, wait for it, stop it, and manage sessions.", tools: [...execute, ...sessions] },
  {
    name: "files",
    summary: "Read and change a session's files, and move files in and out.",
    tools: [...files, ...hostFiles],
  },
  { name: "inspect", summary: "Look at variables without running code.", tools: inspect },
  {
    name: "env",
    summary: "Choose an environment, and give a session more packages.",
    tools: [...environments, ...packages],
  },
];
