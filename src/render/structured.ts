import type { Execution, Output } from "../execution.ts";
import { type JsonValue, VALUE_KIND } from "../kernels/kernel.ts";
import type { Reply } from "../tools/tool.ts";
import { bundleText } from "./bundle.ts";
import type { ContentBlock } from "./result.ts";
import { cutText, shareOut } from "./text/cut.ts";
import { Text } from "./text/texts.ts";
import { tracebackText } from "./text/traceback.ts";

/** Limit of files in the list; list_files has all of them. */
const MAX_FILES = 100;

/** The whole result as fields, within the same budget as the text: some clients show their model only these. */
export function structuredExecution(
  { session, execution, late }: Extract<Reply, { type: "execution" }>,
  { budget, notices, content }: { budget: number; notices: string[]; content: ContentBlock[] },
): Record<string, unknown> {
  const error = execution.outputs.findLast((output) => output.type === "error");
  const texts = {
    stdout: streamText(execution.outputs, "stdout"),
    stderr: streamText(execution.outputs, "stderr"),
    result: shownText(execution.outputs),
    late_output: lateText(late),
    traceback: error ? ownText(tracebackText(error)) : new Text("error"),
  };
  const files = fittingFiles(execution, Math.floor(budget * 0.15));
  const said = notices.join("\n").slice(0, Math.floor(budget * 0.15));
  const message = error ? cutText(error.message.toWellFormed(), Math.floor(budget * 0.1)) : "";
  const left = budget - said.length - message.length - files.chars;
  const shares = shareOut(
    Object.values(texts).map((text) => text.chars),
    left,
  );
  const [stdout, stderr, result, lateOutput, traceback] = Object.values(texts).map((text, index) =>
    cutText(text.shown, shares[index] ?? 0, {
      gaps: text.gaps,
      headShare: text.kind === "error" ? 0.3 : 0.5,
      where: text.where,
    }),
  );
  return {
    session_id: session.id,
    execution_id: execution.id,
    status: execution.status,
    execution_count: execution.executionCount,
    duration_ms: execution.durationMs,
    stdout,
    stderr,
    result,
    ...jsonValue(execution.outputs, budget),
    error: error ? { name: error.name.toWellFormed().slice(0, 200), message, traceback } : null,
    ...(lateOutput ? { late_output: lateOutput } : {}),
    files: files.listed,
    ...(files.left > 0 ? { files_left_out: files.left } : {}),
    notices: said === "" ? [] : said.split("\n"),
    links: content.flatMap((block) => (block.type === "resource_link" ? [block.uri] : [])),
  };
}

/** The last expression's value as JSON, unless it exceeds the text budget. */
function jsonValue(outputs: Output[], budget: number): { value?: unknown } {
  const result = outputs.findLast((output) => output.type === "result");
  const form = result?.data[VALUE_KIND] as JsonValue | undefined;
  if (!form) return { value: null };
  return form.text.length > budget ? {} : { value: JSON.parse(withExactIntegers(form.text)) };
}

/** Turns integers that JavaScript would round into strings. */
function withExactIntegers(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (token) =>
    token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${token}"`,
  );
}

function streamText(outputs: Output[], name: "stdout" | "stderr"): Text {
  const text = new Text("output");
  for (const output of outputs) if (output.type === "stream" && output.name === name) text.addStream(output);
  return text;
}

function shownText(outputs: Output[]): Text {
  const text = new Text("output");
  for (const output of outputs) {
    if (output.type !== "display" && output.type !== "result") continue;
    text.startLine();
    text.add(
      bundleText(output.data, { hasPicture: Object.keys(output.data).some((type) => /^image\//.test(type)) }) ?? "",
    );
  }
  return text;
}

function lateText(late: Extract<Reply, { type: "execution" }>["late"]): Text {
  const text = new Text("late");
  for (const { outputs } of late) for (const output of outputs) if (output.type === "stream") text.addStream(output);
  return text;
}

function ownText(own: string): Text {
  const text = new Text("error");
  text.addOwn(own);
  return text;
}

function fittingFiles({ files }: Execution, maxChars: number) {
  const listed: { path: string; change: string; size_bytes: number; mime_type: string }[] = [];
  let chars = 0;
  for (const { path, change, sizeBytes, mimeType } of files.slice(0, MAX_FILES)) {
    const size = path.length + mimeType.length + change.length;
    if (chars + size > maxChars) break;
    chars += size;
    listed.push({ path: path.toWellFormed(), change, size_bytes: sizeBytes, mime_type: mimeType });
  }
  return { listed, chars, left: files.length - listed.length };
}
