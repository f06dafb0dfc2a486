import type { Run } from "../../engine/run/run.ts";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError, hasCode } from "../../errors.ts";
import type { Execution, MimeBundle, Output, Variables } from "../../execution.ts";
import { type JsonStyle, type JsonValue, type Preparation, VALUE_KIND } from "../../kernels/kernel.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { bundlesOf } from "../shown.ts";
import { Lines } from "./lines.ts";

/** A folder in the workspace; files written there are returned with the result. */
const OUTPUT_FOLDER = "output_files";
/** Limit of all files of a result: as base64 they grow by a third, within the limit of a reply. */
const MAX_FILES_BYTES = 700_000;

export interface ScriptRequest {
  code: string;
  variables: Variables;
  filename: string;
  style: JsonStyle;
  timeoutMs: number;
  /** Whether to install imported packages. */
  imports?: "guessed" | "ignored";
  signal: AbortSignal;
  /** Receives printed lines, installed packages, and installation errors. */
  onMessage: (level: "debug" | "info" | "warning" | "error", text: string) => void;
}

/** The outcome of a program. */
export interface ScriptResult {
  status: "success" | "install-error" | "run-error";
  /** Lines printed on either stream. */
  output: string[];
  /** Value of the last expression; absent if None. */
  value?: JsonValue;
  /** Why it failed, ending with a newline. */
  error?: string;
  /** Requirements that were installed for this code. */
  installed: string[];
  /** Displays. */
  shown: MimeBundle[];
  /** Files of the output folder. */
  files: ScriptFile[];
}

export interface ScriptFile {
  path: string;
  mimeType: string;
  sizeBytes: number;
  /** Absent: too large to return. */
  bytes?: Uint8Array;
}

/** Runs a program in its session. Rejects on failures that are not the program's own. */
export async function runScript(session: Session, request: ScriptRequest): Promise<ScriptResult> {
  const { code, variables, filename, style, timeoutMs, imports = "guessed", signal, onMessage } = request;
  await makeOutputFolder(session.workspace);
  let prepared: Preparation | undefined;
  let obstacle: CellwrightError | undefined;
  const run = session.execute(code, {
    variables,
    timeoutMs,
    signal,
    kernelOptions: { script: { filename }, value: style },
    imports,
    onProgress: (message) => onMessage("debug", message),
    onPrepared: (outcome) => {
      if (outcome instanceof CellwrightError) obstacle = outcome;
      else prepared = outcome;
    },
  });
  tellLines(run, onMessage);
  try {
    const execution = await run.finished;
    if (obstacle) throw obstacle;
    if (prepared?.missed) onMessage("error", prepared.missed.error.message);
    return await resultOf(run, execution, { session, timeoutMs, prepared });
  } catch (error) {
    // `invalid_input`: the script block is malformed.
    if (!hasCode(error, "package_error", "invalid_input")) throw error;
    onMessage("error", error.message);
    const output = [`install error: ${error.message}`];
    return { ...nothing(), status: "install-error", output, error: `${error.message} ${error.hint}\n` };
  }
}

function tellLines(run: Run, onMessage: ScriptRequest["onMessage"]): void {
  const lines = new Lines();
  const tell = (stream: "stdout" | "stderr", line: string) => onMessage(stream === "stdout" ? "info" : "warning", line);
  run.listen((event) => {
    if (event.type === "stream") {
      for (const line of lines.add(event.name, event.text.toWellFormed())) tell(event.name, line);
    } else if (event.type === "done") {
      for (const [stream, line] of lines.rest()) tell(stream, line);
    }
  });
}

async function resultOf(
  run: Run,
  execution: Execution,
  { session, timeoutMs, prepared }: { session: Session; timeoutMs: number; prepared: Preparation | undefined },
): Promise<ScriptResult> {
  const { outputs } = execution;
  const result = outputs.find((output) => output.type === "result");
  const error = errorOf(run, execution, { timeoutMs, prepared });
  return {
    status: error === undefined ? "success" : "run-error",
    output: linesOf(outputs),
    ...(error === undefined ? jsonValueOf(result?.data) : { error }),
    installed: prepared?.installed ?? [],
    shown: bundlesOf(outputs),
    files: await filesOf(session.workspace, execution),
  };
}

function linesOf(outputs: Output[]): string[] {
  const lines = new Lines();
  const shown: string[] = [];
  for (const output of outputs) {
    if (output.type === "stream") {
      const { cut, name } = output;
      const text = cut
        ? `${output.text.slice(0, cut.at)}\n[… ${cut.chars} characters left out …]\n${output.text.slice(cut.at)}`
        : output.text;
      shown.push(...lines.add(name, text));
    } else if (output.type === "display" && isWords(output.data)) {
      shown.push(...String(output.data["text/plain"]).split("\n"));
    }
  }
  return [...shown, ...lines.rest().map(([, line]) => line)];
}

function isWords(data: MimeBundle): boolean {
  return typeof data["text/plain"] === "string" && !Object.keys(data).some((kind) => kind.startsWith("image/"));
}

/** Validated, because it comes from a kernel. */
function jsonValueOf(data: MimeBundle | undefined): { value?: JsonValue } {
  if (!data) return {};
  const form = data[VALUE_KIND];
  if (typeof form === "object" && form !== null && "text" in form && typeof form.text === "string") {
    return { value: { text: form.text, isString: "isString" in form && form.isString === true } };
  }
  return { value: { text: JSON.stringify(data["text/plain"] ?? ""), isString: false } };
}

/** The traceback or a substitute; undefined on success. */
function errorOf(
  run: Run,
  { status, outputs, notices }: Execution,
  { timeoutMs, prepared }: { timeoutMs: number; prepared: Preparation | undefined },
): string | undefined {
  if (status === "ok") return undefined;
  const failure = outputs.findLast((output) => output.type === "error");
  const lines = failure?.traceback ?? [];
  const wasStopped = status === "timeout" || status === "interrupted";
  const above = wasStopped && failure?.name === "KeyboardInterrupt" ? lines.slice(0, -1) : lines;
  return [...above, ...lastLines()].map((line) => `${line}\n`).join("");

  function lastLines(): string[] {
    const killed = run.lost === undefined ? [] : ["The interpreter was killed, and its state was lost."];
    if (status === "timeout") return [...killed, `TimeoutError: execution exceeded ${timeoutMs / 1000} s`];
    if (status === "interrupted") return [`KeyboardInterrupt: ${notices.join(" ")}`];
    if (status === "kernel_died") return [`RuntimeError: kernel died, state was lost: ${run.lost}`];
    const { missed } = prepared ?? {};
    return failure?.name === "ModuleNotFoundError" && missed?.isKnown ? [missed.error.message] : [];
  }
}

async function makeOutputFolder(workspace: Workspace): Promise<void> {
  const file = `${OUTPUT_FOLDER}/.folder`;
  await workspace.write(file, new Uint8Array());
  await workspace.remove(file);
}

async function filesOf(workspace: Workspace, { files }: Execution): Promise<ScriptFile[]> {
  const written = files.filter(({ path, change }) => path.startsWith(`${OUTPUT_FOLDER}/`) && change !== "deleted");
  const result: ScriptFile[] = [];
  let left = MAX_FILES_BYTES;
  for (const { path, mimeType, sizeBytes } of written) {
    const read = await workspace.read(path, { maxBytes: left }).catch(() => undefined);
    left -= read?.bytes.length ?? 0;
    result.push({ path, mimeType, sizeBytes, ...(read ? { bytes: read.bytes } : {}) });
  }
  return result;
}

function nothing() {
  return { installed: [], shown: [], files: [] };
}
