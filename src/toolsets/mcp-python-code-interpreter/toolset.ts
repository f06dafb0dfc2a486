import * as z from "zod";
import type { Run } from "../../engine/run/run.ts";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import type { Execution, FileChange } from "../../execution.ts";
import { optional } from "../../options/spec.ts";
import { text } from "../../options/types.ts";
import { defineTool, type ExactReply, type ToolContext } from "../../tools/tool.ts";
import { blocksAfter, errorOf, formLinks, restoreWarnings, Shortened, wholeCell } from "../shown.ts";
import { defineToolset, type ResourceContext } from "../toolset.ts";
import { DisplayFiles } from "./display-files.ts";
import { environment } from "./env.ts";
import { type FileRef, fileLine, fileRef, isReported, readKernelFile, reportedFiles } from "./files.ts";
import { outputTexts, resultText, richForms, tracebackLines } from "./output.ts";

const displayFiles = new DisplayFiles();

const EXPIRY = "Sessions expire after 30 minutes of inactivity.";
const INSTRUCTIONS =
  "Use this `session_id` in subsequent requests to maintain state. Session will expire after 30 minutes of inactivity.";

/** The format of session ids. */
const sessionIds = /^[A-Za-z0-9_-]{16}$/;

const sessionArgument = { title: "Session Id", type: "string" };

const executeCode = defineTool({
  name: "execute_code",
  title: "",
  description: `Execute Python code in a persistent Jupyter kernel environment.

Variables, imports and state persist between calls of one session. Figures that are shown and files that are written are returned as references; read them as resources.

Args:
    code: Python code to execute (several lines are allowed)
    session_id: Session identifier; empty or "0" for a new session

Returns:
    success, output, result, error, traceback, files and, for a new session, session_info`,
  readOnly: false,
  input: z.object({ code: z.string(), session_id: z.string().default("") }),
  exact: {
    inputSchema: {
      properties: { code: { title: "Code", type: "string" }, session_id: { ...sessionArgument, default: "" } },
      required: ["code"],
      type: "object",
    },
  },
  async run({ code, session_id }, context) {
    const isNew = session_id === "" || session_id === "0";
    let session: Session | undefined;
    try {
      session = isNew ? await context.sessions.create(context.owner) : await find(session_id, context);
      if (!session) return failed(`SessionExpiredError: ${expired(session_id)} ${START_AGAIN}`);
      const run = session.execute(code, { signal: context.signal });
      const execution = await wholeCell(run, context);
      return await cellReply({ run, execution, isNew }, session, context);
    } catch (error) {
      if (!(error instanceof CellwrightError)) throw error;
      // A session that never had a kernel is useless, and no reply names it.
      if (isNew && session) await context.sessions.close(session, { deleteFiles: true }).catch(() => {});
      return failed(
        `${startErrors.has(error.code) ? "InitializationError" : "ServerError"}: ${error.message} ${error.hint}`,
      );
    }
  },
});

const listSessionFiles = defineTool({
  name: "list_session_files",
  title: "",
  description: "List all files generated in a session.\n\nArgs:\n    session_id: Session identifier",
  readOnly: true,
  input: z.object({ session_id: z.string() }),
  exact: {
    inputSchema: { properties: { session_id: sessionArgument }, required: ["session_id"], type: "object" },
  },
  async run({ session_id }, context) {
    const session = await find(session_id, context);
    if (!session) return object({ session_id, files: [], error: expired(session_id) });
    return object({ session_id, files: await reportedFiles(session) });
  },
});

const clearSession = defineTool({
  name: "clear_session",
  title: "",
  description:
    "Manually clear a session and shutdown its kernel.\n\nArgs:\n    session_id: Session identifier to clear",
  readOnly: false,
  destructive: true,
  input: z.object({ session_id: z.string() }),
  exact: {
    inputSchema: { properties: { session_id: sessionArgument }, required: ["session_id"], type: "object" },
  },
  async run({ session_id }, context) {
    try {
      const session = await find(session_id, context);
      if (!session) return object({ success: false, message: `Session ${session_id} not found` });
      await context.sessions.close(session, { deleteFiles: true });
      return object({ success: true, message: `Session ${session_id} cleared and all files deleted` });
    } catch (error) {
      if (!(error instanceof CellwrightError)) throw error;
      return object({ success: false, error: error.message });
    }
  },
});

export const toolset = defineToolset({
  name: "mcp-python-code-interpreter",
  options: {
    notebooksFolder: optional({
      group: "Toolset",
      help: "Folder of the sessions and their files (default: in the data folder).",
      type: text("DIR"),
      aliases: { env: ["NOTEBOOKS_FOLDER"] },
    }),
  },
  create: () => ({
    server: {
      name: "Python Code Interpreter",
      version: "1.0.0",
      instructions:
        'Runs Python in sessions that keep their state. Call execute_code without session_id (or with "0") for a new session and use the id that it returns. Files are read as kernel://{session_id}/{filename}.',
    },
    tools: [executeCode, listSessionFiles, clearSession],
    resources: {
      templates: [
        {
          uriTemplate: "kernel://{session_id}/{filename}",
          name: "get_kernel_file",
          description: "Retrieve file content from a session.",
        },
      ],
      errorCode: 0,
      read: (uri, context) =>
        readKernelFile(uri, async (id) => {
          const session = await find(id, context);
          if (!session) throw new Error(expired(id));
          return session;
        }),
    },
    unknownTool: (name) => `Unknown tool: ${name}`,
    paths: ["/mcp/"],
    guest: ({ draw }) => ({
      cellOptions: { classic: true },
      forgetsIdleSessions: true,
      cellEnded: (run, { workspace }) => displayFiles.save(run, workspace, draw),
    }),
  }),
  commandLine: {
    command: "serve",
    environment,
    settle: (options, { notebooksFolder }) => ({ ...options, sessionsDir: notebooksFolder }),
    defaults: {
      kernel: "local",
      namedWorkspaces: true,
      env: ":usual",
      memoryMb: 4096,
      restore: "replay-all",
      timeout: 300_000,
      sessionTtl: 1_800_000,
      port: 8000,
      logLevel: "info",
    },
  },
});

const START_AGAIN = 'Please create a new session (use session_id="" or session_id="0") and re-execute your setup code.';

/** Errors that mean that no kernel could be started. */
const startErrors = new Set<string>([
  "env_error",
  "kernel_not_found",
  "kernel_start_failed",
  "kernel_start_timeout",
  "session_limit",
]);

function expired(id: string): string {
  return `Session ${id} not found or has expired. ${EXPIRY}`;
}

async function find(id: string, { sessions, owner }: ResourceContext): Promise<Session | undefined> {
  const session = sessionIds.test(id) ? await sessions.find(owner, id) : undefined;
  return session?.id === id && session.record.endedAt === undefined ? session : undefined;
}

interface Cell {
  run: Run;
  execution: Execution;
  isNew: boolean;
}

async function cellReply({ run, execution, isNew }: Cell, session: Session, context: ToolContext): Promise<ExactReply> {
  const { outputs } = execution;
  const shortened = new Shortened(context, session.id);
  const all = (texts: string[]) => Promise.all(texts.map((text) => shortened.text(text)));
  const error = failure(run, execution);
  const files = changedFiles(run, execution);
  const refs = files.map((file) => fileRef(session.id, file));
  const result = await resultText(session, outputs);
  const reply = {
    success: error === undefined,
    output: [
      ...restoreWarnings(run),
      ...(await all(outputTexts(outputs, displayFiles.of(run)))),
      ...files.map(fileLine),
    ],
    result: result === undefined ? null : await shortened.text(result),
    error: error === undefined ? null : await shortened.text(error.message),
    traceback: await all(error?.traceback ?? []),
    files: refs,
    session_info: isNew ? { session_id: session.id, instructions: INSTRUCTIONS } : null,
  };
  const forms = await formLinks(richForms(outputs), session.id, context.store);
  const links = [...savedLinks(refs, run), ...forms, ...shortened.links];
  const answer = object(reply);
  return { ...answer, blocks: [...answer.blocks, ...blocksAfter(outputs, links)], sessionId: session.id };
}

/** Displayed pictures first, in order, then other new or changed files, by path. */
function changedFiles(run: Run, { files }: Execution): FileChange[] {
  const shown = displayFiles.of(run).flatMap(({ path }) => files.filter((file) => file.path === path));
  const others = files.filter((file) => isReported(file) && !shown.includes(file));
  return [...shown, ...others];
}

function savedLinks(refs: FileRef[], run: Run) {
  const saved = displayFiles.of(run);
  return refs
    .filter(({ name }) => saved.some(({ path }) => path === name))
    .map(({ uri, name, mime_type, size }) => ({ uri, name, mimeType: mime_type, sizeBytes: size }));
}

/** Why a cell failed. */
function failure(run: Run, execution: Execution): { message: string; traceback: string[] } | undefined {
  if (execution.status === "ok") return undefined;
  const lost = run.lost === undefined ? "" : "; state was lost";
  if (execution.status === "timeout")
    return { message: `TimeoutError: cell stopped after ${(run.timeoutMs ?? 0) / 1000} s${lost}`, traceback: [] };
  if (execution.status === "kernel_died") return { message: "KernelError: kernel died; state was lost", traceback: [] };
  if (run.stopReason && run.stopReason !== "interrupted" && run.stopReason !== "cancelled")
    return { message: "ExecutionError: the session was ended while the cell ran; state was lost", traceback: [] };
  const error = errorOf(execution.outputs);
  if (!error) return { message: `ExecutionError: the cell was stopped${lost}`, traceback: [] };
  return { message: `${error.name}: ${error.message}`, traceback: tracebackLines(error) };
}

function failed(error: string): ExactReply {
  return object({ success: false, output: [], result: null, error, traceback: [], files: [], session_info: null });
}

/** The object as JSON text, and as structured content. */
function object(structured: Record<string, unknown>): ExactReply {
  return { type: "exact", blocks: [{ type: "text", text: JSON.stringify(structured) }], structured, isError: false };
}
