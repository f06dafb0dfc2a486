import type { Run } from "../../engine/run/run.ts";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import type { Cut, Execution, MimeBundle, Output } from "../../execution.ts";
import { cutText } from "../../render/text/cut.ts";
import { withoutEscapes } from "../../render/text/terminal.ts";
import type { ExactReply, ToolContext } from "../../tools/tool.ts";
import {
  blocksAfter,
  type Form,
  formLinks,
  nameOf,
  plainText,
  restoreWarnings,
  Shortened,
  streamText,
  wholeCell,
} from "../shown.ts";

/** Rich types, by preference. */
const richTypes = ["text/html", "text/latex", "text/markdown", "application/json"];

/** The answer of `execute_code` in both versions, which differ in the type of the session id. */
export interface CellAnswer<Id> {
  error: string[];
  result: string[];
  session_id: Id;
}

/** The object as structured content, and as text in the original's layout. */
export function objectReply(value: object): ExactReply {
  return {
    type: "exact",
    blocks: [{ type: "text", text: JSON.stringify(value, null, 2) }],
    structured: value as Record<string, unknown>,
  };
}

export function failedCell<Id>(message: string, session_id: Id): ExactReply {
  const answer: CellAnswer<Id> = { error: [message], result: [], session_id };
  return objectReply(answer);
}

/** Runs a cell to its end. Rejects if it could not be run at all. */
export async function runCell<Id>(
  code: string,
  { session, sessionId, context }: { session: Session; sessionId: Id; context: ToolContext },
): Promise<ExactReply> {
  const run = session.execute(code, { signal: context.signal });
  const execution = await wholeCell(run, context);
  const shortened = new Shortened(context, session.id);
  const answer: CellAnswer<Id> = {
    error: errorsOf(run, execution, context.options.timeout),
    result: await resultsOf(run, execution.outputs, { shortened, maxChars: context.options.maxResultChars }),
    session_id: sessionId,
  };
  const forms = await formLinks(richForms(execution.outputs), session.id, context.store);
  const once = forms.filter(({ uri }, index) => forms.findIndex((form) => form.uri === uri) === index);
  const reply = objectReply(answer);
  const blocks = [...reply.blocks, ...blocksAfter(execution.outputs, [...shortened.links, ...once])];
  return { ...reply, blocks, sessionId: session.id };
}

/** Why a cell could not be run, in the original's form. */
export function couldNotExecute(error: unknown): string {
  if (!(error instanceof CellwrightError)) throw error;
  return `Failed to execute code: ${error.message}`;
}

async function resultsOf(
  run: Run,
  outputs: Output[],
  { shortened, maxChars }: { shortened: Shortened; maxChars: number },
): Promise<string[]> {
  const texts: string[] = [];
  for (const output of outputs) {
    if (output.type === "stream" && output.cut?.full) {
      shortened.links.push({ uri: output.cut.full, name: nameOf(output.cut.full), mimeType: "text/plain" });
      texts.push(cutStream(output, output.cut, maxChars));
    } else if (output.type === "stream") texts.push(await shortened.text(streamText(output)));
    else if (output.type === "result") {
      const plain = plainText(output.data);
      if (plain !== undefined) texts.push(await shortened.text(`Execution Result: ${plain}`));
    }
  }
  return [...restoreWarnings(run), ...texts];
}

/** Truncates a stream whose middle is already left out and kept in a file. */
function cutStream({ text }: Extract<Output, { type: "stream" }>, cut: Cut, maxChars: number): string {
  const head = withoutEscapes(text.slice(0, cut.at));
  const gaps = [{ at: head.length, chars: cut.chars }];
  const where = `all of it is in ${cut.full}`;
  return cutText(head + withoutEscapes(text.slice(cut.at)), maxChars, { gaps, where });
}

/** The bash kernel's message for an exit status. */
const exitStatus = /^command exited with status \d+$/;

function errorsOf(run: Run, { status, outputs }: Execution, timeoutMs: number): string[] {
  if (status === "timeout") {
    const lost = run.lost === undefined ? [] : [`It did not stop, and its kernel was ended: its ${LOST}`];
    return [`Code execution timed out after ${(timeoutMs / 1000).toFixed(1)}s`, ...lost];
  }
  const errors = outputs.flatMap((output) => (output.type === "error" ? [withoutEscapes(errorText(output))] : []));
  if (status !== "kernel_died") return errors;
  return [...errors, `Failed to execute code: the kernel died: ${run.lost ?? ""} Its ${LOST}`];
}

const LOST = "state was lost. Before the next cell, those that succeeded are run again.";

function errorText({ name, message }: Extract<Output, { type: "error" }>): string {
  return exitStatus.test(name) ? `Error: ${name}` : `Error: ${name}: ${message}`;
}

/** Rich outputs other than pictures, for which the original has no field. */
function richForms(outputs: Output[]): Form[] {
  return outputs.flatMap((output) => {
    if (output.type === "display") return formOf(output.data, [...richTypes, "text/plain"]);
    return output.type === "result" ? formOf(output.data, richTypes) : [];
  });
}

function formOf(data: MimeBundle, mimeTypes: string[]): Form[] {
  if (Object.keys(data).some((mimeType) => mimeType.startsWith("image/"))) return [];
  const mimeType = mimeTypes.find((type) => data[type] !== undefined);
  if (mimeType === undefined) return [];
  const value = data[mimeType];
  return [{ mimeType, bytes: Buffer.from(typeof value === "string" ? value : JSON.stringify(value)) }];
}
