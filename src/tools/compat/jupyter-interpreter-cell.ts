import { CellwrightError } from "../../errors.ts";
import type { Cut, Execution, MimeBundle, Output } from "../../execution.ts";
import { cutText } from "../../mcp/render/cut.ts";
import { withoutEscapes } from "../../mcp/render/terminal.ts";
import type { ExactBlock, ExactReply, Link, ToolContext } from "../../mcp/tool.ts";
import type { Run } from "../../session/run.ts";
import type { Session } from "../../session/session.ts";
import { bundlesOf, plainText, Shortened, streamText, wholeCell } from "./shown.ts";

/** Forms of one cell that are kept and linked besides its text and its pictures. */
const MAX_FORMS = 20;
/** Those that say more than text, the one that says most first. */
const forms = ["text/html", "text/latex", "text/markdown", "application/json"];

/** What `execute_code` answers, in both versions; they differ in what a session's id is. */
export interface CellAnswer<Id> {
  error: string[];
  result: string[];
  session_id: Id;
}

/** The object as structured content, and as text in the same layout as the original's. */
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
  const bundles = bundlesOf(execution.outputs);
  const links = [...shortened.links, ...(await formLinks(execution.outputs, session.id, context))];
  const reply = objectReply(answer);
  const shown: ExactBlock[] = bundles.length > 0 ? [{ type: "shown", bundles }] : [];
  const linked = links.map((link): ExactBlock => ({ type: "link", link }));
  return { ...reply, blocks: [...reply.blocks, ...shown, ...linked], sessionId: session.id };
}

/** Why a cell could not be run, as the original begins such sentences. */
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
  const warnings = (run.restored?.failures ?? []).map(
    ({ cell, error }) => `Restore warning: cell ${cell} failed: ${error}`,
  );
  return [...warnings, ...texts];
}

/** Of a text whose middle was left out already, and is in a file. */
function cutStream({ text }: Extract<Output, { type: "stream" }>, cut: Cut, maxChars: number): string {
  const head = withoutEscapes(text.slice(0, cut.at));
  const gaps = [{ at: head.length, chars: cut.chars }];
  const where = `all of it is in ${cut.full}`;
  return cutText(head + withoutEscapes(text.slice(cut.at)), maxChars, { gaps, where });
}

function nameOf(uri: string): string {
  return uri.slice(uri.lastIndexOf("/") + 1);
}

/** What a shell says by its exit status; see `host/shell.py`. */
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

/** What was displayed and is no picture is in none of the lists: it is kept, and linked. */
async function formLinks(outputs: Output[], sessionId: string, { store }: ToolContext): Promise<Link[]> {
  const kept = outputs.flatMap((output) => {
    if (output.type === "display") return formOf(output.data, [...forms, "text/plain"]);
    return output.type === "result" ? formOf(output.data, forms) : [];
  });
  const links: Link[] = [];
  for (const { mimeType, bytes } of kept.slice(0, MAX_FORMS)) {
    // A store that is full costs the link and nothing else.
    const uri = await store.putBlob(sessionId, bytes, mimeType).catch(() => undefined);
    if (uri === undefined || links.some((link) => link.uri === uri)) continue;
    links.push({ uri, name: nameOf(uri), mimeType, sizeBytes: bytes.length });
  }
  return links;
}

function formOf(data: MimeBundle, mimeTypes: string[]): { mimeType: string; bytes: Buffer }[] {
  if (Object.keys(data).some((mimeType) => mimeType.startsWith("image/"))) return [];
  const mimeType = mimeTypes.find((type) => data[type] !== undefined);
  if (mimeType === undefined) return [];
  const value = data[mimeType];
  return [{ mimeType, bytes: Buffer.from(typeof value === "string" ? value : JSON.stringify(value)) }];
}
