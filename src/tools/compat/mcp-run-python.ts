import * as z from "zod";
import type { Variables } from "../../execution.ts";
import { defineTool, type ExactBlock, type ToolContext } from "../../mcp/tool.ts";
import type { Toolset } from "../../mcp/toolset.ts";
import { runScript } from "../../session/script.ts";
import { LOCAL_OWNER } from "../../session/sessions.ts";
import { jsonStyle, type ReturnMode, resultText } from "./mcp-run-python-result.ts";

const modes = ["stdio", "streamable-http", "streamable-http-stateless", "example"];
const httpModes = ["streamable-http", "streamable-http-stateless", "serve"];

const runPythonCode = defineTool({
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
  async run({ python_code, global_variables }, { sessions, options, owner, signal, tell }) {
    const mode: ReturnMode = options.returnMode;
    const result = await sessions.once(owner, signal, (session) =>
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
    const dependencies = options.listPackages ? [...options.packages, ...result.installed] : result.installed;
    return {
      type: "exact",
      blocks: [{ type: "text", text: resultText(result, mode, dependencies) }, ...besides(result)],
    };
  },
});

function description(kernel: string): string {
  return `Tool to execute Python code and return stdout, stderr, and return value.

The code may be async, and the value on the last line will be returned as the return value.

The code will be executed with ${kernel}.
`;
}

/** A program is always the main one. */
export function globalsOf(variables: Record<string, unknown>): Variables {
  const { __name__, ...rest } = variables as Variables;
  return rest;
}

/** Pictures, and the files that were written to be returned. */
function besides({ shown, files }: Awaited<ReturnType<typeof runScript>>): ExactBlock[] {
  const blocks: ExactBlock[] = shown.length > 0 ? [{ type: "shown", bundles: shown }] : [];
  for (const { path, mimeType, bytes, sizeBytes } of files) {
    if (bytes) blocks.push({ type: "resource", uri: `file:///${encodeURI(path)}`, mimeType, bytes });
    else blocks.push({ type: "text", text: `${path} has ${sizeBytes} bytes, which is too much to be returned.` });
  }
  return blocks;
}

/** Whether it works: a few lines that need numpy. Nothing is installed for them that was not asked for. */
async function example({ sessions, options }: Pick<ToolContext, "sessions" | "options">): Promise<number> {
  const code = "import numpy\na = numpy.array([1, 2, 3])\nprint('numpy array:', a)\na\n";
  const { signal } = new AbortController();
  const result = await sessions.once(LOCAL_OWNER, signal, (session) =>
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

export const toolset: Toolset = {
  name: "mcp-run-python",
  server: {
    name: "MCP Run Python",
    version: "0.0.22",
    instructions: 'Call the "run_python_code" tool with the Python code to run.',
  },
  tools: [runPythonCode],
  withoutResources: true,
  unknownTool: (name) => `MCP error -32602: Tool ${name} not found`,
  http: {
    wrongPath: "Page not found",
    wrongMethod: "Method not allowed",
    noSession: "Bad Request: No valid session ID provided",
    unknownSession: "Invalid or missing session ID",
  },
  commandLine: {
    defaults: { kernel: "wasm", timeout: 60_000, port: 3001, warm: 2 },
    modes: {
      "streamable-http": { command: "serve" },
      "streamable-http-stateless": { command: "serve", settings: { stateless: true } },
    },
    commands: { example },
    refuse(problem) {
      if ("error" in problem) return undefined;
      const [mode] = problem.words;
      if (mode === undefined) return { message: `${usage}\nmcp-run-python: error: Mode is required`, exitCode: 2 };
      if (problem.given.has("port") && !httpModes.includes(mode)) {
        return { message: "Port is only supported for `streamable_http` modes", exitCode: 1 };
      }
      return undefined;
    },
    version: "mcp-run-python 0.0.22",
  },
};

const usage = `usage: mcp-run-python [--version] [--port PORT] [--deps DEPS] [--disable-networking] [--verbose]
                      [--return-mode {xml,json}] {${modes.join(",")}}`;
