import { CellwrightError } from "../errors.ts";
import type { Execution, MimeBundle, Output, Variables } from "../execution.ts";
import { type JsonStyle, type JsonValue, VALUE_KIND } from "../kernels/kernel.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { Lines } from "./lines.ts";
import type { Run } from "./run.ts";
import type { Session } from "./session.ts";

/** A folder in the workspace; what a program writes there goes along with its result. */
const OUTPUT_FOLDER = "output_files";
/** All files of a result together: three quarters of what a reply may have, which is base64's share. */
const MAX_FILES_BYTES = 700_000;

export interface ScriptRequest {
  code: string;
  variables: Variables;
  filename: string;
  style: JsonStyle;
  timeoutMs: number;
  /** Whether what it imports is installed, if it can be. */
  imports?: "guessed" | "ignored";
  signal: AbortSignal;
  /** What happens meanwhile: lines that it prints, packages that are installed, and what goes wrong with these. */
  onMessage: (level: "debug" | "info" | "warning" | "error", text: string) => void;
}

/** What became of a program. */
export interface ScriptResult {
  status: "success" | "install-error" | "run-error";
  /** What it printed, on either stream, line by line. */
  output: string[];
  /** Of its last expression; absent if that was None. */
  value?: JsonValue;
  /** Why it failed, ending with a line feed. */
  error?: string;
  /** Requirements that were installed because of this code. */
  installed: string[];
  /** What it displayed. */
  shown: MimeBundle[];
  /** What it wrote to the folder for that. */
  files: ScriptFile[];
}

export interface ScriptFile {
  path: string;
  mimeType: string;
  sizeBytes: number;
  /** Absent: it is too large to go along. */
  bytes?: Uint8Array;
}

/** Runs a program in a session of its own. Rejects if nothing could be run for reasons that are not the program's. */
export async function runScript(session: Session, request: ScriptRequest): Promise<ScriptResult> {
  const { code, variables, filename, style, timeoutMs, imports = "guessed", signal, onMessage } = request;
  await makeOutputFolder(session.workspace);
  const run = session.execute(code, {
    variables,
    timeoutMs,
    signal,
    script: { filename },
    value: style,
    imports,
    onInstall: (message) => onMessage("debug", message),
  });
  const told = tellLines(run, onMessage);
  try {
    const execution = await run.finished;
    await told;
    if (run.obstacle) throw run.obstacle;
    if (run.preparation?.missed) onMessage("error", run.preparation.missed.error.message);
    return await resultOf(run, execution, { session, timeoutMs });
  } catch (error) {
    // What a script block asks for can be wrong, too.
    const isPackages = error instanceof CellwrightError && ["package_error", "invalid_input"].includes(error.code);
    if (!isPackages) throw error;
    onMessage("error", error.message);
    const output = [`install error: ${error.message}`];
    return { ...nothing(), status: "install-error", output, error: `${error.message} ${error.hint}\n` };
  }
}

async function tellLines(run: Run, onMessage: ScriptRequest["onMessage"]): Promise<void> {
  const lines = new Lines();
  const tell = (stream: "stdout" | "stderr", line: string) => onMessage(stream === "stdout" ? "info" : "warning", line);
  for await (const event of run.events()) {
    if (event.type !== "stream") continue;
    for (const line of lines.add(event.name, event.text.toWellFormed())) tell(event.name, line);
  }
  for (const [stream, line] of lines.rest()) tell(stream, line);
}

async function resultOf(
  run: Run,
  execution: Execution,
  { session, timeoutMs }: { session: Session; timeoutMs: number },
): Promise<ScriptResult> {
  const { outputs } = execution;
  const result = outputs.find((output) => output.type === "result");
  const shown = outputs.flatMap((output) =>
    output.type === "display" || output.type === "result" ? [output.data] : [],
  );
  const error = errorOf(run, execution, timeoutMs);
  return {
    status: error === undefined ? "success" : "run-error",
    output: linesOf(outputs),
    ...(error === undefined ? jsonValueOf(result?.data) : { error }),
    installed: run.preparation?.installed ?? [],
    shown,
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

/** It came from a kernel, so it is looked at. */
function jsonValueOf(data: MimeBundle | undefined): { value?: JsonValue } {
  if (!data) return {};
  const form = data[VALUE_KIND];
  if (typeof form === "object" && form !== null && "text" in form && typeof form.text === "string") {
    return { value: { text: form.text, isString: "isString" in form && form.isString === true } };
  }
  return { value: { text: JSON.stringify(data["text/plain"] ?? ""), isString: false } };
}

/** The traceback, or what stands in its place; undefined if all went well. */
function errorOf(run: Run, { status, outputs, notices }: Execution, timeoutMs: number): string | undefined {
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
    const { missed } = run.preparation ?? {};
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
