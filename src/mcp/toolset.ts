import type { Options } from "../options.ts";
import type { Tool, ToolContext } from "./tool.ts";

/** Another system's interface over our engine: its names, shapes and texts, and nothing of how things are done. */
export interface Toolset {
  /** How `--toolset` calls it. */
  name: string;
  server: { name: string; version: string; instructions?: string };
  tools: Tool[];
  resources?: ToolsetResources;
  /** What a call of a tool that it does not have is answered with. */
  unknownTool(name: string): string;
  /** A failure of ours, as that system would tell it. Absent: the message and what to do. */
  explain?(error: Error, tool: string): string;
  commandLine: ToolsetCommandLine;
}

/** What it serves as resources, besides nothing. */
export interface ToolsetResources {
  list?(context: ResourceContext): Promise<{ uri: string; name: string; mimeType?: string }[]>;
  templates?: { uriTemplate: string; name: string; description?: string; mimeType?: string }[];
  /** Throws an Error whose message the client is told; undefined if the address is not one of these. */
  read(uri: string, context: ResourceContext): Promise<ResourceContent | undefined>;
}

export type ResourceContext = Pick<ToolContext, "sessions" | "store" | "options" | "owner">;
export type ResourceContent = { mimeType: string } & ({ text: string } | { blob: Uint8Array });

/** How it is started, where that differs from us. */
export interface ToolsetCommandLine {
  /** Settings that are different there. What a user gives counts more. */
  defaults: Partial<Options>;
  /** What is done without a command. Absent: one has to be named. */
  command?: "stdio" | "serve";
  /** Commands of its own, by their names. */
  commands?: Record<string, () => Promise<ToolsetCommand>>;
  /** The environment as it reads it: a `.env` file, for example. */
  environment?(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv;
  /** What it says before it leaves when it cannot be started like this, with its exit status. */
  refuse?(problem: { options: Options; words: string[] } | { error: Error }): Refusal | undefined;
  /** What `--version` prints. */
  version?: string;
}

export type ToolsetCommand = (options: Options, toolset: Toolset) => Promise<number>;

export interface Refusal {
  message: string;
  exitCode: number;
}
