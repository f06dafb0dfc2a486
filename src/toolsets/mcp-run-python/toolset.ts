import * as z from "zod";
import { LOCAL_OWNER } from "../../engine/sessions/sessions.ts";
import type { Variables } from "../../execution.ts";
import { type OptionValues, option } from "../../options/spec.ts";
import { choice, flag } from "../../options/types.ts";
import { defineTool, type ExactBlock, type ToolContext } from "../../tools/tool.ts";
import { type PythonCommandLine, refuse } from "../argparse.ts";
import { defineToolset } from "../toolset.ts";
import { OneUse } from "./one-use.ts";
import { jsonStyle, type ReturnMode, resultText } from "./result.ts";
import { runScript } from "./script.ts";

const modes = ["stdio", "streamable-http", "streamable-http-stateless", "example"];
const python: PythonCommandLine = {
  program: "mcp-run-python",
  usage: `usage: mcp-run-python [-h] [--port PORT] [--deps DEPS] [--disable-networking]
                      [--verbose] [--version]
                      [{${modes.join(",")}}]`,
  options: [
    { names: ["-h", "--help"], answers: true },
    { names: ["--port"], value: "int" },
    { names: ["--deps", "--dependencies"], value: "text" },
    { names: ["--disable-networking"] },
    { names: ["--verbose"] },
    { names: ["--version"] },
  ],
  mode: { name: "mode", choices: modes },
};
const httpModes = ["streamable-http", "streamable-http-stateless", "serve"];

const oneUse = new OneUse();

const options = {
  returnMode: option({
    group: "Toolset",
    help: "Format of the result.",
    type: choice(["xml", "json"]),
    default: "xml",
  }),
  listPackages: option({
    group: "Toolset",
    help: "Also list the packages of --deps in each reply.",
    type: flag(),
    default: false,
  }),
  disableNetworking: option({
    group: "Toolset",
    help: "Give code no network, even with --allow-net.",
    type: flag(),
    default: false,
    trusted: true,
  }),
  verbose: option({ group: "Toolset", help: "The same as --log-level debug.", type: flag(), default: false }),
};
type Own = OptionValues<typeof options>;

const runPythonCode = (own: Own) =>
  defineTool({
    name: "run_python_code",
    title: "Run Python code",
    description: description("Python"),
    readOnly: false,
    input: z.object({
      python_code: z.string(),
      global_variables: z.record(z.string(), z.unknown()).default({}),
    }),
    exact: {
      inputSchema: {
        type: "object",
        properties: {
          python_code: { type: "string", description: "Python code to run" },
          global_variables: {
            type: "object",
            additionalProperties: {},
            default: {},
            description: "Map of global variables in context when the code is executed",
          },
        },
        required: ["python_code"],
        additionalProperties: false,
        $schema: "http://json-schema.org/draft-07/schema#",
      },
      describe: description,
    },
    packed: "global_variables",
    async run({ python_code, global_variables }, context) {
      const { options, signal, tell } = context;
      const mode: ReturnMode = own.returnMode;
      const result = await oneUse.run(context, signal, (session) =>
        runScript(session, {
          code: python_code,
          variables: globalsOf(global_variables),
          filename: "main.py",
          style: jsonStyle(mode),
          timeoutMs: options.timeout,
          signal,
          onMessage: tell,
        }),
      );
      const dependencies = own.listPackages ? [...options.packages, ...result.installed] : result.installed;
      return {
        type: "exact",
        blocks: [{ type: "text", text: resultText(result, mode, dependencies) }, ...attachments(result)],
      };
    },
  });

function description(kernel: string): string {
  return `Tool to execute Python code and return stdout, stderr, and return value.

The code may be async, and the value on the last line will be returned as the return value.

The code will be executed with ${kernel}.
`;
}

/** `__name__` is always `__main__`. */
export function globalsOf(variables: Record<string, unknown>): Variables {
  const { __name__, ...rest } = variables as Variables;
  return rest;
}

/** Pictures, and the files of the output folder. */
function attachments({ shown, files }: Awaited<ReturnType<typeof runScript>>): ExactBlock[] {
  const blocks: ExactBlock[] = shown.length > 0 ? [{ type: "shown", bundles: shown }] : [];
  for (const { path, mimeType, bytes, sizeBytes } of files) {
    if (bytes) blocks.push({ type: "resource", uri: `file:///${encodeURI(path)}`, mimeType, bytes });
    else blocks.push({ type: "text", text: `${path} has ${sizeBytes} bytes, which is too large to return.` });
  }
  return blocks;
}

/** A self-test that uses numpy, without installing it. */
async function example({ sessions, options }: Pick<ToolContext, "sessions" | "options">): Promise<number> {
  const code = "import numpy\na = numpy.array([1, 2, 3])\nprint('numpy array:', a)\na\n";
  const { signal } = new AbortController();
  const result = await oneUse.run({ sessions, options, owner: LOCAL_OWNER }, signal, (session) =>
    runScript(session, {
      code,
      imports: "ignored",
      variables: {},
      filename: "example.py",
      style: jsonStyle("xml"),
      timeoutMs: options.timeout,
      signal,
      onMessage: (level, text) => process.stderr.write(`${level}: ${text}\n`),
    }),
  );
  process.stdout.write(`Tool return value:\n${resultText(result, "xml")}\n`);
  return result.status === "success" ? 0 : 1;
}

export const toolset = defineToolset({
  name: "mcp-run-python",
  options,
  create: (own) => ({
    server: {
      name: "MCP Run Python",
      version: "0.0.22",
      instructions: 'Call the "run_python_code" tool with the Python code to run.',
    },
    tools: [runPythonCode(own)],
    withoutResources: true,
    unknownTool: (name) => `MCP error -32602: Tool ${name} not found`,
    http: {
      wrongPath: "Page not found",
      wrongMethod: "Method not allowed",
      noSession: "Bad Request: No valid session ID provided",
      unknownSession: "Invalid or missing session ID",
    },
  }),
  commandLine: {
    python,
    defaults: { kernel: "wasm", timeout: 60_000, port: 3001, warm: 2 },
    aliases: { packages: { flags: ["--deps", "--dependencies"] } },
    modes: {
      "streamable-http": { command: "serve" },
      "streamable-http-stateless": { command: "serve", settings: { stateless: true } },
    },
    commands: { example },
    settle: (options, { disableNetworking, verbose }, given) => ({
      ...options,
      ...(disableNetworking && { allowNet: [] }),
      ...(verbose && !given.has("logLevel") && { logLevel: "debug" as const }),
    }),
    refuse(problem) {
      if ("error" in problem) return undefined;
      const [mode] = problem.words;
      if (mode === undefined) return refuse(python, "Mode is required");
      const asksForPort = problem.args.some((arg) => arg.startsWith("--port="));
      if (asksForPort && !httpModes.includes(mode)) {
        return { message: "Port is only supported for `streamable_http` modes", exitCode: 1 };
      }
      return undefined;
    },
    version: "mcp-run-python 0.0.22",
  },
});
