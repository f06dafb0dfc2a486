import type { Guest } from "../engine/guest.ts";
import type { MimeBundle } from "../execution.ts";
import type { Options } from "../options/options.ts";
import type { OptionAliases, OptionTable, OptionValues } from "../options/spec.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import type { PythonCommandLine, Refusal } from "./argparse.ts";

/** Another system whose tools can be offered instead of the native ones. */
export interface ToolsetDefinition<Own extends OptionTable = OptionTable> {
  /** The value of `--toolset`. */
  name: string;
  /** Its own options. */
  options: Own;
  commandLine: ToolsetCommandLine<Own>;
  create(own: OptionValues<Own>): Toolset;
}

/** The identity function, for type inference. */
export function defineToolset<const Own extends OptionTable>(
  definition: ToolsetDefinition<Own>,
): ToolsetDefinition<Own> {
  return definition;
}

/** A system's interface over the engine: names, schemas and texts, no implementation. */
export interface Toolset {
  server: { name: string; version: string; instructions?: string };
  tools: Tool[];
  /** Absent: empty lists. */
  resources?: ToolsetResources;
  /** It does not declare the resources capability. */
  withoutResources?: true;
  /** The answer to a call of an unknown tool. */
  unknownTool(name: string): string;
  /** An error's text in the original's form. Default: message and hint. */
  explain?(error: Error, tool: string): string;
  /** HTTP paths of MCP besides `/mcp`. */
  paths?: string[];
  /** How it changes the engine. */
  guest?(services: GuestServices): Guest;
  /** Called once after the start, in the background. */
  onStart?(context: ResourceContext): Promise<void>;
  /** Default: the native texts. */
  http?: HttpWords;
}

/** Services of the program for guests of the engine. */
export interface GuestServices {
  /** Draws a figure that is only a specification (plotly, HTML) as PNG, or says why not. */
  draw(figure: MimeBundle): Promise<Uint8Array | { failure: string }>;
}

/** Texts of HTTP errors: plain text, except `noSession`, which is a JSON-RPC error. */
export interface HttpWords {
  /** 404, for every path but `/mcp`; all other routes are disabled. */
  wrongPath: string;
  /** 405. */
  wrongMethod: string;
  /** 400, for a POST without a session that is not `initialize`. */
  noSession: string;
  /** 400, for a GET or DELETE without a session. */
  unknownSession: string;
}

/** A toolset's resources. */
export interface ToolsetResources {
  list?(context: ResourceContext): Promise<{ uri: string; name: string; mimeType?: string }[]>;
  templates?: { uriTemplate: string; name: string; description?: string; mimeType?: string }[];
  /** JSON-RPC error code for an unreadable resource. Default: invalid params. */
  errorCode?: number;
  /** Undefined if the URI is not one of these. The message of a thrown Error is sent to the client. */
  read(uri: string, context: ResourceContext): Promise<ResourceContent | undefined>;
}

export type ResourceContext = Pick<ToolContext, "sessions" | "store" | "options" | "owner">;
export type ResourceContent = { mimeType: string } & ({ text: string } | { blob: Uint8Array });

/** Its command line, where it differs from the native one. */
export interface ToolsetCommandLine<Own extends OptionTable = OptionTable> {
  /** Different defaults of native options. */
  defaults: Partial<Options>;
  /** Its arguments, if it is a Python program: errors are worded like those of `argparse`. */
  python?: PythonCommandLine;
  /** Its names for native options. */
  aliases?: OptionAliases;
  /** The default command. Absent: a command is required. */
  command?: "stdio" | "serve";
  /** Its names for native commands, with the options that they imply. */
  modes?: Record<string, { command: "stdio" | "serve"; settings?: Partial<Options> }>;
  /** Its own commands, by name. */
  commands?: Record<string, ToolsetCommand>;
  /** The environment as the original reads it, for example with a `.env` file. */
  environment?(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv;
  /** Native options that depend on its own, or have another meaning there. */
  settle?(options: Options, own: OptionValues<Own>, given: Set<string>): Options;
  /** Message and exit status for an invalid command line. */
  refuse?(
    problem: { options: Options; words: string[]; args: string[] } | { error: Error; options?: Options | undefined },
  ): Refusal | undefined;
  /** What `--version` prints. */
  version?: string;
}

/** Runs with its own engine. Returns the exit status. */
export type ToolsetCommand = (engine: Pick<ToolContext, "sessions" | "options">) => Promise<number>;
