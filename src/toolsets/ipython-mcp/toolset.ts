import { parse } from "node:path";
import * as z from "zod";
import type { Run } from "../../engine/run/run.ts";
import type { Session } from "../../engine/session/session.ts";
import type { NewSession } from "../../engine/sessions/sessions.ts";
import { CellwrightError } from "../../errors.ts";
import type { Execution } from "../../execution.ts";
import { MAX_TIMER_MS } from "../../options/types.ts";
import { withoutEscapes } from "../../render/text/terminal.ts";
import { defineTool, type ExactReply, type ToolContext } from "../../tools/tool.ts";
import { NamedSessions } from "../named-sessions.ts";
import { pydanticSchemas } from "../pydantic.ts";
import { blocksAfter, errorOf, plainText, Shortened, streamText, wholeCell } from "../shown.ts";
import { defineToolset } from "../toolset.ts";
import { type ChosenEnvironment, chooseEnvironment, isSameInterpreter } from "./envs.ts";
import { SessionUses } from "./session-uses.ts";

const named = new NamedSessions();
const uses = new SessionUses();

const execute = defineTool({
  name: "execute",
  title: "",
  description: `Run \`\`code\`\` inside the kernel for \`\`session\`\`.

    Creates the session on first use. \`\`env\`\` selects the Python environment for
    new sessions: a bare name like \`\`"news-monitor"\`\` resolves to
    \`\`~/envs/<name>/bin/python\`\`; anything containing \`\`/\`\` is treated as a path.
    On subsequent calls the session's existing env is used and a \`\`warning\`\` is
    returned if a different env was requested.

    Returns the result, stdout, or stderr string on success.
    Raises an error with the traceback on failure or timeout.
    `,
  readOnly: false,
  input: z.object({
    session: z.string(),
    code: z.string(),
    env: z.string().optional(),
    timeout_s: z.number().min(0).optional(),
  }),
  exact: {
    inputSchema: {
      properties: {
        session: { title: "Session", type: "string" },
        code: { title: "Code", type: "string" },
        env: { anyOf: [{ type: "string" }, { type: "null" }], default: null, title: "Env" },
        timeout_s: { anyOf: [{ type: "number" }, { type: "null" }], default: null, title: "Timeout S" },
      },
      required: ["session", "code"],
      title: "executeArguments",
      type: "object",
    },
  },
  async run({ session: name, code, env, timeout_s }, context) {
    const { sessions, options } = context;
    const known = await named.find(context, name);
    const wanted = known && !env ? undefined : await chooseEnvironment(env, context);
    if (wanted?.problem !== undefined) return envError(wanted.problem);
    const session = known ?? (await named.getOrCreate(context, name, aboutEnvironment(wanted)));
    if (!known) uses.restart(session);
    const seconds = timeout_s ?? options.timeout / 1000;
    const timeoutMs = Math.min(seconds * 1000, MAX_TIMER_MS);
    try {
      const run = session.execute(code, { timeoutMs, onInput: context.ask, signal: context.signal });
      const execution = await wholeCell(run, context);
      uses.count(session);
      const warning = env && wanted ? mismatch(name, session, wanted) : undefined;
      return await cellReply({ run, execution, seconds, warning: warning ?? freshKernel(run) }, session, context);
    } catch (error) {
      // A session that never had a kernel is useless.
      if (!known && !session.hasKernel) await sessions.close(session, { deleteFiles: true }).catch(() => {});
      throw error;
    }
  },
});

const listSessions = defineTool({
  name: "list_sessions",
  title: "",
  description: "List active sessions with their env, status, uptime, and execution count.",
  readOnly: true,
  input: z.object({}),
  exact: {
    inputSchema: { properties: {}, title: "list_sessionsArguments", type: "object" },
    outputSchema: {
      properties: {
        result: { items: { additionalProperties: true, type: "object" }, title: "Result", type: "array" },
      },
      required: ["result"],
      title: "list_sessionsOutput",
      type: "object",
    },
  },
  async run(_, { sessions, owner }) {
    const open = sessions.opened(owner).filter(({ record }) => record.name !== undefined);
    const listed = open
      .sort((one, other) => one.record.createdAt.localeCompare(other.record.createdAt))
      .map((session) => ({
        name: session.record.name,
        ...environmentOf(session),
        status: session.busy ? "busy" : "idle",
        ...uses.of(session),
      }));
    return {
      type: "exact",
      blocks: listed.map((session) => ({ type: "text", text: pythonJson(session) })),
      structured: { result: listed },
      isError: false,
    };
  },
});

const reset = sessionTool(
  "reset",
  "Restart the kernel for ``session`` (wipes state, keeps name and env).",
  async (session) => {
    await session.reset();
    uses.restart(session);
  },
);

const shutdown = sessionTool(
  "shutdown",
  "Kill the kernel for ``session`` and forget the session.",
  async (session, { sessions }) => sessions.close(session, { deleteFiles: true }),
);

const interrupt = sessionTool("interrupt", "Send an interrupt to a running cell in ``session``.", async (session) => {
  // The waiting call reports how the cell ended.
  void session.interrupt().catch(() => {});
});

export const toolset = defineToolset({
  name: "ipython-mcp",
  options: {},
  create: () => ({
    server: { name: "ipython-mcp", version: "0.1.0" },
    tools: [execute, listSessions, reset, shutdown, interrupt],
    unknownTool: (name) => `Unknown tool: ${name}`,
    explain: (error) => (error instanceof CellwrightError ? `${error.message} ${error.hint}` : error.message),
    guest: () => ({ cellOptions: { classic: true }, forgetsIdleSessions: true }),
  }),
  commandLine: {
    command: "stdio",
    defaults: {
      kernel: "local",
      env: ":usual",
      workspace: workingDirectory(process.cwd()),
      memoryMb: 4096,
      // No quota: the folder is the user's own.
      diskMb: 1_000_000,
      timeout: defaultTimeoutMs(process.env.MCP_TOOL_TIMEOUT),
      startTimeout: 30_000,
      sessionTtl: 0,
    },
  },
});

/** Sessions use the server's working directory, unless that is the root folder: some clients set no directory. */
function workingDirectory(folder: string): string | undefined {
  return folder === parse(folder).root ? undefined : folder;
}

/** Shorter than the client's timeout, which it passes to its servers in milliseconds. */
export function defaultTimeoutMs(clientLimit: string | undefined): number {
  const ms = Number(clientLimit);
  if (!clientLimit?.trim() || !Number.isFinite(ms)) return 58_000;
  return Math.max(10_000, ms - 2_000);
}

function sessionTool(
  name: string,
  description: string,
  act: (session: Session, context: ToolContext) => Promise<void>,
) {
  const input = z.object({ session: z.string() });
  return defineTool({
    name,
    title: "",
    description,
    readOnly: false,
    input,
    exact: pydanticSchemas(name, input, true),
    async run({ session: called }, context): Promise<ExactReply> {
      const session = await named.find(context, called);
      if (session) await act(session, context);
      const said = session ? { ok: true } : { ok: false, error: `unknown session '${called}'` };
      return {
        type: "exact",
        blocks: [{ type: "text", text: JSON.stringify(said, undefined, 2) }],
        structured: said,
        isError: false,
      };
    },
  });
}

interface Cell {
  run: Run;
  execution: Execution;
  seconds: number;
  warning: string | undefined;
}

async function cellReply(cell: Cell, session: Session, context: ToolContext): Promise<ExactReply> {
  const { run, execution, seconds, warning } = cell;
  const { outputs, executionCount } = execution;
  const shortened = new Shortened(context, session.id);
  const printed = async (stream: "stdout" | "stderr") => {
    const pieces = outputs.flatMap((output) => (output.type === "stream" && output.name === stream ? [output] : []));
    return shortened.text(pieces.map(streamText).join(""));
  };
  const value = outputs.find(({ type }) => type === "result") ?? outputs.find(({ type }) => type === "display");
  const whole = value && "data" in value ? plainText(value.data) : undefined;
  const status = run.stopReason === "timeout" ? "timeout" : execution.status === "ok" ? "ok" : "error";
  const failure = status === "ok" ? undefined : failureText(cell);
  const object = {
    status,
    stdout: await printed("stdout"),
    stderr: await printed("stderr"),
    result: whole === undefined ? null : await shortened.text(whole),
    error: failure === undefined ? null : await shortened.text(failure),
    execution_count: executionCount,
    warning: warning ?? null,
  };
  const shown = shownText(object);
  const text = {
    ok: shown || "(executed ok)",
    error: [shown, object.error].filter(Boolean).join("\n"),
    timeout: [
      `Timeout after ${roundedHalfToEven(seconds)}s`,
      ...(shown ? [`Partial output:\n${shown}`] : []),
      ...(run.lost === undefined ? [] : [NOT_STOPPED]),
    ].join("\n\n"),
  }[status];
  return {
    type: "exact",
    blocks: [
      { type: "text", text: warning === undefined ? text : `Warning: ${warning}\n\n${text}` },
      ...blocksAfter(outputs, shortened.links),
    ],
    structured: object,
    isError: status !== "ok",
    sessionId: session.id,
  };
}

const NOT_STOPPED = "The cell did not stop when it was interrupted, so its kernel was killed; state was lost.";

/** stdout, the value and stderr, in this order. Whitespace-only parts are left out. */
function shownText({ stdout, result, stderr }: { stdout: string; result: string | null; stderr: string }): string {
  const parts = [stdout.replace(/\n+$/, ""), result ?? "", stderr.replace(/\n+$/, "")];
  const text = parts.filter((part) => part !== "").join("\n");
  return text.trim() === "" ? "" : text;
}

/** Why a cell failed: its traceback, or a notice. */
function failureText({ run, execution }: Cell): string | undefined {
  const error = errorOf(execution.outputs);
  const traceback = error && (withoutEscapes(error.traceback.join("\n")) || `${error.name}: ${error.message}`);
  const { stopReason } = run;
  if (stopReason === "timeout") return run.lost === undefined ? traceback : NOT_STOPPED;
  if (execution.status === "kernel_died") return `kernel died; state was lost (${run.lost})`;
  const stopped = {
    interrupted: run.lost === undefined ? "the cell was interrupted" : NOT_STOPPED,
    cancelled: "the call was cancelled",
    reset: "the session was reset; state was lost",
    closed: "the session was shut down; state was lost",
    shutdown: "the server was stopped; state was lost",
  };
  return [traceback, stopReason && (!traceback || run.lost) ? `KeyboardInterrupt: ${stopped[stopReason]}` : undefined]
    .filter((part) => part !== undefined)
    .join("\n");
}

function freshKernel(run: Run): string | undefined {
  return run.fate.lost ? "the kernel was lost; this cell ran in a fresh one, and earlier state is gone" : undefined;
}

/** The environment's name as given by the caller. */
function environmentOf({ record }: Session): { env: string; python: string } {
  const { env = "default", python = "" } = record.labels ?? {};
  return { env, python };
}

function mismatch(name: string, session: Session, wanted: ChosenEnvironment): string | undefined {
  const { env, python } = environmentOf(session);
  if (isSameInterpreter(python, wanted.python)) return undefined;
  return `session '${name}' is bound to env '${env}' (${python}); ignoring requested env '${wanted.label}'. Use shutdown('${name}') first to rebind.`;
}

function aboutEnvironment(wanted: ChosenEnvironment | undefined): NewSession {
  if (!wanted) return {};
  return { env: wanted.env, labels: { env: wanted.label, python: wanted.python } };
}

function envError(message: string): ExactReply {
  const structured = {
    status: "env_error",
    stdout: "",
    stderr: "",
    result: null,
    error: message,
    execution_count: null,
    warning: null,
  };
  return { type: "exact", blocks: [{ type: "text", text: message }], structured, isError: true };
}

/** Formatted like Python's json module: a float keeps its decimal point. */
function pythonJson(session: { uptime_s: number }): string {
  const text = JSON.stringify(session, undefined, 2);
  return Number.isInteger(session.uptime_s) ? text.replace(/("uptime_s": \d+)/, "$1.0") : text;
}

function roundedHalfToEven(seconds: number): number {
  const below = Math.floor(seconds);
  if (seconds - below !== 0.5) return Math.round(seconds);
  return below % 2 === 0 ? below : below + 1;
}
