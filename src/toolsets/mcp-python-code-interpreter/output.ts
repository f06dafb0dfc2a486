import { basename, posix } from "node:path";
import type { Session } from "../../engine/session/session.ts";
import type { Output } from "../../execution.ts";
import { withoutEscapes } from "../../render/text/terminal.ts";
import { bundlesOf, type errorOf, type Form, plainText, streamText } from "../shown.ts";
import { PLOTLY, type SavedDisplay } from "./display-files.ts";

const keptForms = ["text/html", "text/latex", "text/markdown"];

/** Printed and displayed output, in order; a plotly figure is replaced by the name of its file. */
export function outputTexts(outputs: Output[], saved: SavedDisplay[]): string[] {
  const pieces: { stream?: string; text: string }[] = [];
  for (const [index, output] of outputs.entries()) {
    if (output.type === "stream") pieces.push({ stream: output.name, text: streamText(output) });
    if (output.type !== "display") continue;
    const text = PLOTLY in output.data ? undefined : plainText(output.data);
    if (text !== undefined) pieces.push({ text });
    else if (PLOTLY in output.data)
      pieces.push({ stream: "stdout", text: plotlyLine(saved.find((one) => one.output === index)) });
  }
  const texts: string[] = [];
  for (const [index, { stream, text }] of pieces.entries()) {
    const isMore = stream !== undefined && pieces[index - 1]?.stream === stream;
    if (isMore) texts.push(`${texts.pop()}${text}`);
    else texts.push(text);
  }
  return texts;
}

function plotlyLine(saved: SavedDisplay | undefined): string {
  if (saved?.notDrawn === undefined && saved) return `Plotly figure saved as ${saved.path}\n`;
  return `Warning: Could not save Plotly figure: ${saved?.notDrawn ?? "it is too large"}\n`;
}

/** The value of the last expression. An absolute path into the session's folder is replaced by its name. */
export async function resultText(session: Session, outputs: Output[]): Promise<string | undefined> {
  const result = outputs.findLast((output) => output.type === "result");
  const text = result && plainText(result.data);
  if (text === undefined) return undefined;
  const path = /^(['"])(\/.*)\1$/s.exec(text)?.[2] ?? text;
  const folders = [session.kernels[0]?.workingDir, session.workspace.hostPath?.(".")];
  for (const folder of folders) {
    if (folder === undefined || !path.startsWith(`${folder}/`)) continue;
    if (await isThere(session, path.slice(folder.length + 1))) return basename(path);
  }
  return text;
}

async function isThere(session: Session, path: string): Promise<boolean> {
  const name = posix.normalize(path).replace(/\/$/, "");
  try {
    const { entries } = await session.workspace.list(posix.dirname(name));
    return entries.some((entry) => entry.path === name);
  } catch {
    return false;
  }
}

export function tracebackLines({ traceback }: NonNullable<ReturnType<typeof errorOf>>): string[] {
  return traceback.map(withoutEscapes);
}

/** Other representations of displays. */
export function richForms(outputs: Output[]): Form[] {
  return bundlesOf(outputs)
    .filter((data) => !(PLOTLY in data))
    .flatMap((data) => keptForms.map((mimeType) => ({ mimeType, text: data[mimeType] })))
    .flatMap(({ mimeType, text }) => (typeof text === "string" ? [{ mimeType, bytes: Buffer.from(text) }] : []));
}
