import { basename, posix } from "node:path";
import type { Session } from "../../engine/session/session.ts";
import type { Output } from "../../execution.ts";
import { withoutEscapes } from "../../render/text/terminal.ts";
import type { Store } from "../../store/store.ts";
import type { Link } from "../../tools/tool.ts";
import { bundlesOf, type errorOf, plainText, streamText } from "../shown.ts";
import type { SavedDisplay } from "./display-files.ts";

/** Limit of a cell's rich outputs that are kept, each as a file. */
const MAX_FORMS = 20;
const keptForms = ["text/html", "text/latex", "text/markdown"];
const PLOTLY = "application/vnd.plotly.v1+json";

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

/** Keeps and links other representations of displays. If the store is full, only the links are missing. */
export async function formLinks(outputs: Output[], sessionId: string, store: Store): Promise<Link[]> {
  const forms = bundlesOf(outputs)
    .filter((data) => !(PLOTLY in data))
    .flatMap((data) => keptForms.map((mimeType) => ({ mimeType, text: data[mimeType] })))
    .flatMap(({ mimeType, text }) => (typeof text === "string" ? [{ mimeType, bytes: Buffer.from(text) }] : []));
  const links: Link[] = [];
  for (const { mimeType, bytes } of forms.slice(0, MAX_FORMS)) {
    const uri = await store.putBlob(sessionId, bytes, mimeType).catch(() => undefined);
    if (uri !== undefined)
      links.push({ uri, name: uri.slice(uri.lastIndexOf("/") + 1), mimeType, sizeBytes: bytes.length });
  }
  return links;
}
