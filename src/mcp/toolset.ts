import type { OptionName, Options } from "../options.ts";
import type { Tool, ToolContext } from "./tool.ts";

/** Another system's interface over our engine: its names, shapes and texts, and nothing of how things are done. */
export interface Toolset {
  /** How `--toolset` calls it. */
  name: string;
  server: { name: string; version: string; instructions?: string };
  tools: Tool[];
  /** Absent: it has none, and says so with empty lists. */
  resources?: ToolsetResources;
  /** It does not know what resources are. */
  withoutResources?: true;
  /** What a call of a tool that it does not have is answered with. */
  unknownTool(name: string): string;
  /** A failure of ours, as that system would tell it. Absent: the message and what to do. */
  explain?(error: Error, tool: string): string;
  commandLine: ToolsetCommandLine;
  /** Called once, when the program has started; nobody waits for it. */
  onStart?(context: ResourceContext): Promise<void>;
  /** Absent: as we do. */
  http?: HttpWords;
}

/** How it answers HTTP requests that it does not serve: in plain text, but for `noSession`, which is JSON-RPC's. */
export interface HttpWords {
  /** 404, for every path but `/mcp`: there are no others then. */
  wrongPath: string;
  /** 405. */
  wrongMethod: string;
  /** 400, for a POST outside a session that does not begin one. */
  noSession: string;
  /** 400, for a GET or DELETE outside a session. */
  unknownSession: string;
}

/** What it serves as resources, besides nothing. */
export interface ToolsetResources {
  list?(context: ResourceContext): Promise<{ uri: string; name: string; mimeType?: string }[]>;
  templates?: { uriTemplate: string; name: string; description?: string; mimeType?: string }[];
  /** The code of a JSON-RPC error that says why something cannot be read. Absent: that of a wrong argument. */
  errorCode?: number;
  /** Throws an Error whose message the client is told; undefined if the address is not one of these. */
  read(uri: string, context: ResourceContext): Promise<ResourceContent | undefined>;
}

export type ResourceContext = Pick<ToolContext, "sessions" | "store" | "options" | "owner">;
export type ResourceContent = { mimeType: string } & ({ text: string } | { blob: Uint8Array });

/** How it is started, where that differs from us. */
export interface ToolsetCommandLine {
  /** Settings that are different there. What a user gives counts more. */
  defaults: Partial<Options>;
  /** Where MCP is served over HTTP, besides `/mcp`. */
  paths?: string[];
  /** What is done without a command. Absent: one has to be named. */
  command?: "stdio" | "serve";
  /** What it calls our commands, and settings that go with them. */
  modes?: Record<string, { command: "stdio" | "serve"; settings?: Partial<Options> }>;
  /** Commands of its own, by their names. */
  commands?: Record<string, ToolsetCommand>;
  /** The environment as it reads it: a `.env` file, for example. */
  environment?(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv;
  /** Settings that mean something else there. */
  settle?(options: Options): Options;
  /** What it says before it leaves when it cannot be started like this, with its exit status. */
  refuse?(
    problem:
      | { options: Options; words: string[]; given: Set<OptionName> }
      | { error: Error; options?: Options | undefined },
  ): Refusal | undefined;
  /** What `--version` prints. */
  version?: string;
}

/** Does something with an engine that is there for it alone. Returns the exit status. */
export type ToolsetCommand = (engine: Pick<ToolContext, "sessions" | "options">) => Promise<number>;

export interface Refusal {
  message: string;
  exitCode: number;
}
