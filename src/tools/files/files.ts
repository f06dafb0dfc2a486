import * as z from "zod";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import { showBytes } from "../../render/text/amounts.ts";
import { utf8Text } from "../../render/text/utf8.ts";
import { findOpenSession, sessionArgument } from "../session-argument.ts";
import { table } from "../table.ts";
import { defineTool, type Reply, type ToolContext } from "../tool.ts";
import { fileUri } from "../uri.ts";
import { editText } from "./edit-text.ts";
import { decodeText, pageOf } from "./file-text.ts";
import { keptOutput, pathArgument, refuseKeptOutputs } from "./kept-outputs.ts";
import { saveFile } from "./save-file.ts";

/** Larger files are for cells: here the file is in memory, and a reply shows a few pages at most. */
const MAX_READ_BYTES = 64 * 1024 * 1024;
const MAX_LISTED = 500;
/** Reserved for the line below a page that says which lines it shows. */
const PAGE_WORDS = 400;

const path = z.string().min(1).describe("File, relative to the workspace.");

const listFiles = defineTool({
  name: "list_files",
  title: "List files",
  description: "Lists the files in a session's workspace, with sizes and dates.",
  readOnly: true,
  input: z.object({
    session_id: sessionArgument,
    path: z.string().optional().describe("Folder; default: the workspace."),
    recursive: z.boolean().optional().describe("Also list subfolders."),
  }),
  async run({ session_id, path: given = ".", recursive = false }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const folder = pathArgument(given, session);
    const { entries, more } = await session.workspace.list(folder, { recursive, limit: MAX_LISTED });
    const rows = entries.map(({ path: file, kind, sizeBytes, modifiedAt }) => [
      kind === "folder" ? `${file}/` : file,
      kind === "file" ? showBytes(sizeBytes) : kind === "other" ? "special" : "",
      modifiedAt.slice(0, 19).replace("T", " "),
    ]);
    const rest = more ? `\n… only the first ${entries.length} are listed` : "";
    return {
      type: "text",
      text:
        rows.length > 0 ? table(["path", "size", "modified (UTC)"], rows, { maxCellChars: 1_000 }) + rest : "No files.",
      data: {
        files: entries.map(({ path: file, kind, sizeBytes }) => ({ path: file, kind, size_bytes: sizeBytes })),
        more,
      },
    };
  },
});

const readFile = defineTool({
  name: "read_file",
  title: "Read file",
  description:
    "Reads a file of a session: text page by page, images as images, other files as binary. Paths below .outputs/ are kept outputs that replies name.",
  readOnly: true,
  input: z.object({
    session_id: sessionArgument,
    path,
    offset_line: z.number().int().min(1).optional().describe("First line to show, from 1."),
    limit_lines: z.number().int().min(1).optional().describe("Maximum number of lines."),
  }),
  async run({ session_id, path: given, offset_line = 1, limit_lines = Number.MAX_SAFE_INTEGER }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const file = pathArgument(given, session);
    const { bytes, mimeType } =
      (await keptOutput(file, session, context.store)) ??
      (await session.workspace.read(file, { maxBytes: MAX_READ_BYTES }));
    const isPicture = /^image\/(?!svg)/.test(mimeType);
    const text = isPicture ? undefined : decodeText(bytes, mimeType);
    if (text === undefined) {
      const words = `[${file} · ${mimeType} · ${showBytes(bytes.length)}]`;
      return { type: "blob", text: words, uri: fileUri(session.id, file), bytes, mimeType };
    }
    const maxChars = Math.max(500, context.options.maxResultChars - PAGE_WORDS - file.length);
    const page = pageOf(text, { firstLine: offset_line, maxLines: limit_lines, maxChars });
    return {
      type: "text",
      text: `${page.text}[${file} · ${showBytes(bytes.length)} · ${page.place}]`,
      data: { path: file, ...page.data, text: page.text },
    };
  },
});

const writeFile = defineTool({
  name: "write_file",
  title: "Write file",
  description: "Creates or replaces a file in a session's workspace, and the folders above it.",
  readOnly: false,
  destructive: true,
  input: z.object({
    session_id: sessionArgument,
    path,
    content: z.string().describe("The whole new content."),
    encoding: z.enum(["utf8", "base64"]).optional().describe("Encoding of content; default utf8."),
  }),
  async run({ session_id, path: given, content, encoding = "utf8" }, context) {
    const session = await findOpenSession(session_id, context);
    const file = writablePath(given, session);
    const bytes = Buffer.from(content, encoding);
    if (encoding === "base64" && bytes.toString("base64") !== content) {
      throw new CellwrightError("invalid_input", "content is not valid base64.");
    }
    const { created } = await saveFile(session, file, bytes, context.options);
    return changed(session, file, { verb: created ? "Created" : "Replaced", bytes, context });
  },
});

const editFile = defineTool({
  name: "edit_file",
  title: "Edit file",
  description: "Replaces text in a file of a session. old_text must occur exactly once, unless replace_all is set.",
  readOnly: false,
  destructive: true,
  input: z.object({
    session_id: sessionArgument,
    path,
    old_text: z.string().min(1).describe("Text to replace, exactly as in the file."),
    new_text: z.string().describe("Replacement."),
    replace_all: z.boolean().optional().describe("Replace every occurrence."),
  }),
  async run({ session_id, path: given, old_text, new_text, replace_all = false }, context) {
    const session = await findOpenSession(session_id, context);
    const file = writablePath(given, session);
    const before = utf8Text((await session.workspace.read(file, { maxBytes: MAX_READ_BYTES })).bytes);
    if (before === undefined) {
      const hint = "Change it in a cell, with the encoding it has.";
      throw new CellwrightError("edit_failed", `\`${file}\` is not UTF-8 text.`, { hint });
    }
    const { text, replaced } = editText(before, { oldText: old_text, newText: new_text, replaceAll: replace_all });
    const bytes = Buffer.from(text);
    await saveFile(session, file, bytes, context.options);
    const verb = replaced === 1 ? "Replaced 1 occurrence in" : `Replaced ${replaced} occurrences in`;
    return changed(session, file, { verb, bytes, context });
  },
});

const deleteFile = defineTool({
  name: "delete_file",
  title: "Delete file",
  description: "Deletes a file of a session, or a folder with everything in it.",
  readOnly: false,
  destructive: true,
  input: z.object({ session_id: sessionArgument, path }),
  async run({ session_id, path: given }, context) {
    const session = await findOpenSession(session_id, context);
    const file = writablePath(given, session);
    await session.workspace.remove(file);
    session.filesChanged([file]);
    return { type: "text", text: `Deleted ${file}.` };
  },
});

export default [listFiles, readFile, writeFile, editFile, deleteFile];

function writablePath(given: string, session: Session): string {
  const file = pathArgument(given, session);
  refuseKeptOutputs(file);
  return file;
}

function changed(
  session: Session,
  file: string,
  { verb, bytes, context }: { verb: string; bytes: Uint8Array; context: ToolContext },
): Reply {
  const place = context.local ? session.workspace.hostPath?.(file) : undefined;
  return {
    type: "text",
    text: `${verb} ${file} (${showBytes(bytes.length)}).${place ? ` On this machine: ${place}` : ""}`,
    links: [{ uri: fileUri(session.id, file), name: file, sizeBytes: bytes.length }],
  };
}
