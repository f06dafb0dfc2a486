import * as z from "zod";
import { defineTool } from "../../mcp/tool.ts";
import { editLoosely } from "../edit-loosely.ts";
import { pythonLines } from "../python-lines.ts";
import {
  hasCode,
  inSession,
  isThere,
  readBytes,
  servedPath,
  textOf,
  write,
} from "./jupyter-interpreter-04-file-access.ts";
import { objectReply } from "./jupyter-interpreter-cell.ts";
import { listing } from "./jupyter-interpreter-listing.ts";
import { baseName, isBinaryName, isHidden } from "./jupyter-interpreter-names.ts";
import { Told } from "./jupyter-interpreter-session.ts";
import { findHostFile, readHostFile } from "./jupyter-interpreter-upload.ts";
import { lenientBoolean, lenientInteger } from "./lenient.ts";

/** Of base64, in a line. */
const BASE64_CHARS = 76;

const sessionId = { title: "Session Id", type: "string" };
const path = { title: "Path", type: "string" };
const strings = (name: string) => ({
  additionalProperties: { type: "string" },
  title: `${name}DictOutput`,
  type: "object",
});
const objects = (name: string) => ({ additionalProperties: true, title: `${name}DictOutput`, type: "object" });

const downloadFile = defineTool({
  name: "download_file",
  title: "",
  description:
    "The whole content of a file of the session: text as it is, other files as base64. Better for small files; code in execute_code reads large ones where they lie.",
  readOnly: true,
  input: z.object({ session_id: z.string(), path: z.string() }),
  exact: {
    inputSchema: {
      properties: { session_id: sessionId, path },
      required: ["session_id", "path"],
      title: "download_fileArguments",
      type: "object",
    },
    outputSchema: strings("download_file"),
  },
  run: (input, context) =>
    inSession(input, context, "Download failed", async ({ session, file }) => {
      const bytes = await readBytes(session, file, input.path);
      const text = isBinaryName(baseName(file)) ? undefined : textOf(bytes);
      const filename = baseName(input.path);
      return text === undefined
        ? { content: base64Of(bytes), encoding: "base64", filename }
        : { content: text, encoding: "text", filename };
    }),
});

const uploadFilePath = defineTool({
  name: "upload_file_path",
  title: "",
  description:
    "Copies a file of this machine, named by its absolute path, into the session, where code can read it. Up to 100 MB, only from allowed folders, and none that usually hold secrets. overwrite=False refuses to replace a file that is there.",
  readOnly: false,
  input: z.object({
    session_id: z.string(),
    host_path: z.string(),
    destination_path: z.string(),
    overwrite: lenientBoolean.default(true),
  }),
  exact: {
    inputSchema: {
      properties: {
        session_id: sessionId,
        host_path: { title: "Host Path", type: "string" },
        destination_path: { title: "Destination Path", type: "string" },
        overwrite: { default: true, title: "Overwrite", type: "boolean" },
      },
      required: ["session_id", "host_path", "destination_path"],
      title: "upload_file_pathArguments",
      type: "object",
    },
    outputSchema: strings("upload_file_path"),
  },
  run: ({ session_id, host_path, destination_path, overwrite }, context) =>
    inSession({ session_id, path: destination_path }, context, "Upload by path failed", async ({ session, file }) => {
      const host = await findHostFile(host_path, context);
      if ("error" in host) throw new Told(host.error);
      if (!overwrite && (await isThere(session, file))) {
        throw new Told(`Destination already exists: ${destination_path} (set overwrite=True to replace)`);
      }
      const read = await readHostFile(host.path);
      if ("error" in read) throw new Told(read.error);
      await write(session, file, read.bytes);
      return { status: "success", sandbox_path: destination_path, size: String(read.bytes.length) };
    }),
});

const listDir = defineTool({
  name: "list_dir",
  title: "",
  description: "What is in the session's folder, or in a folder below it: names, sizes and times.",
  readOnly: true,
  input: z.object({ session_id: z.string(), path: z.string().default("") }),
  exact: {
    inputSchema: {
      properties: { session_id: sessionId, path: { ...path, default: "" } },
      required: ["session_id"],
      title: "list_dirArguments",
      type: "object",
    },
    outputSchema: {
      additionalProperties: { anyOf: [{ items: { type: "string" }, type: "array" }, { type: "string" }] },
      title: "list_dirDictOutput",
      type: "object",
    },
  },
  run: (input, context) =>
    inSession(
      input,
      context,
      "List directory failed",
      async ({ session, file }) => {
        const missing = `Path not found: ${servedPath(session, file, context)}`;
        if (isHidden(file)) throw new Told(`List directory failed: ${missing}`);
        try {
          return { error: "", result: await listing(session.workspace, file) };
        } catch (error) {
          if (hasCode(error, "file_not_found")) throw new Told(`List directory failed: ${missing}`);
          if (hasCode(error, "invalid_input")) throw new Told(`Not a directory: ${input.path}`);
          throw error;
        }
      },
      { result: [] },
    ),
});

const readFile = defineTool({
  name: "read_file",
  title: "",
  description:
    "Lines of a text file of the session with their numbers, from offset on, at most limit of them (first 200 unless told otherwise). Binary files are for download_file.",
  readOnly: true,
  input: z.object({
    session_id: z.string(),
    path: z.string(),
    offset: lenientInteger.default(1),
    limit: lenientInteger.default(200),
  }),
  exact: {
    inputSchema: {
      properties: {
        session_id: sessionId,
        path,
        offset: { default: 1, title: "Offset", type: "integer" },
        limit: { default: 200, title: "Limit", type: "integer" },
      },
      required: ["session_id", "path"],
      title: "read_fileArguments",
      type: "object",
    },
    outputSchema: objects("read_file"),
  },
  async run({ session_id, path: given, offset, limit }, context) {
    if (offset < 1) return objectReply({ error: "offset must be >= 1" });
    if (limit < 1) return objectReply({ error: "limit must be >= 1" });
    return inSession({ session_id, path: given }, context, "Read failed", async ({ session, file }) => {
      const text = textOf(await readBytes(session, file, given));
      if (text === undefined) {
        throw new Told("Binary files cannot be read with read_file. Use download_file to retrieve binary content.");
      }
      const lines = pythonLines(text);
      const end = offset - 1 + limit;
      return {
        lines: lines.slice(offset - 1, end).map((line, index) => `${offset + index}: ${line}`),
        total_lines: lines.length,
        offset,
        limit,
        truncated: end < lines.length,
        path: given,
      };
    });
  },
});

const writeFile = defineTool({
  name: "write_file",
  title: "",
  description:
    "Creates or replaces a text file of the session, and the folders above it. Binary files come in with upload_file_path.",
  readOnly: false,
  input: z.object({ session_id: z.string(), path: z.string(), content: z.string() }),
  exact: {
    inputSchema: {
      properties: { session_id: sessionId, path, content: { title: "Content", type: "string" } },
      required: ["session_id", "path", "content"],
      title: "write_fileArguments",
      type: "object",
    },
    outputSchema: objects("write_file"),
  },
  async run({ session_id, path: given, content }, context) {
    if (given.trim() === "") return objectReply({ error: "Invalid path: destination path must not be empty." });
    if (given.endsWith("/")) {
      const error = "Invalid path: destination path must not end with '/'; please provide a file name.";
      return objectReply({ error });
    }
    return inSession({ session_id, path: given }, context, "Write failed", async ({ session, file }) => {
      const bytes = Buffer.from(content);
      await write(session, file, bytes);
      return { status: "ok", path: given, bytes_written: bytes.length };
    });
  },
});

const editFile = defineTool({
  name: "edit_file",
  title: "",
  description:
    "Replaces old_string by new_string in a text file of the session. It has to occur once, unless replace_all=True. Where it is not found as it stands, blanks around each line are ignored, then the common indent. Read the file before.",
  readOnly: false,
  input: z.object({
    session_id: z.string(),
    path: z.string(),
    old_string: z.string(),
    new_string: z.string(),
    replace_all: lenientBoolean.default(false),
  }),
  exact: {
    inputSchema: {
      properties: {
        session_id: sessionId,
        path,
        old_string: { title: "Old String", type: "string" },
        new_string: { title: "New String", type: "string" },
        replace_all: { default: false, title: "Replace All", type: "boolean" },
      },
      required: ["session_id", "path", "old_string", "new_string"],
      title: "edit_fileArguments",
      type: "object",
    },
    outputSchema: objects("edit_file"),
  },
  run: (input, context) =>
    inSession(input, context, "Edit failed", async ({ session, file }) => {
      const before = textOf(await readBytes(session, file, input.path));
      if (before === undefined) {
        throw new Told("Binary files cannot be edited with edit_file. Use execute_code to manipulate binary content.");
      }
      const { old_string: oldText, new_string: newText, replace_all: replaceAll } = input;
      if (oldText === "") {
        throw new Told("old_string must not be empty; use write_file to create or overwrite files");
      }
      const edited = editLoosely(before, { oldText, newText, replaceAll });
      if ("found" in edited) throw new Told(edited.found === 0 ? NO_MATCH : several(edited.found));
      await write(session, file, Buffer.from(edited.text));
      return { status: "ok", path: input.path, replacements: edited.replaced };
    }),
});

export const fileTools = [downloadFile, uploadFilePath, listDir, readFile, writeFile, editFile];

const NO_MATCH =
  "old_string not found in file. Verify that old_string exactly matches the text you want to replace (including surrounding context, whitespace, and indentation).";

function several(count: number): string {
  return `Found ${count} occurrences of old_string. Provide more surrounding context to uniquely identify the target location, or set replace_all=True to replace every occurrence.`;
}

/** In lines, each of them ended. */
function base64Of(bytes: Uint8Array): string {
  const lines =
    Buffer.from(bytes)
      .toString("base64")
      .match(new RegExp(`.{1,${BASE64_CHARS}}`, "g")) ?? [];
  return lines.map((line) => `${line}\n`).join("");
}
