import * as z from "zod";
import { hasCode } from "../../errors.ts";
import { utf8Text } from "../../render/text/utf8.ts";
import { editLoosely } from "../../tools/files/edit-loosely.ts";
import type { Tool } from "../../tools/tool.ts";
import { lenientBoolean, lenientInteger } from "../pydantic.ts";
import { objectReply } from "./cell.ts";
import { inSession, isThere, readBytes, servedPath, write } from "./file-access-04.ts";
import { listing } from "./listing.ts";
import { baseName, isBinaryName, isHidden } from "./names.ts";
import { pythonLines } from "./python-lines.ts";
import { ReportedError } from "./session.ts";
import { defineTool04, LISTS_OR_STRINGS, STRINGS, type State } from "./state-04.ts";
import { findHostFile, readHostFile } from "./upload.ts";

/** Line length of base64. */
const BASE64_CHARS = 76;

const downloadFile = defineTool04({
  name: "download_file",
  description:
    "Returns the whole content of a file in the session: text as it is, other files as base64. For small files; process large ones with execute_code.",
  readOnly: true,
  input: z.object({ session_id: z.string(), path: z.string() }),
  values: STRINGS,
  run: (input, context) =>
    inSession(input, context, "Download failed", async ({ session, file }) => {
      const bytes = await readBytes(session, file, input.path);
      const text = isBinaryName(baseName(file)) ? undefined : utf8Text(bytes);
      const filename = baseName(input.path);
      return text === undefined
        ? { content: base64Of(bytes), encoding: "base64", filename }
        : { content: text, encoding: "text", filename };
    }),
});

const uploadFilePath = defineTool04({
  name: "upload_file_path",
  description:
    "Copies a file of this machine, given by its absolute path, into the session, where code can read it. Up to 100 MB, only from allowed folders, and no files that usually hold secrets. overwrite=False refuses to replace an existing file.",
  readOnly: false,
  input: z.object({
    session_id: z.string(),
    host_path: z.string(),
    destination_path: z.string(),
    overwrite: lenientBoolean.default(true),
  }),
  values: STRINGS,
  run: ({ session_id, host_path, destination_path, overwrite }, context) =>
    inSession({ session_id, path: destination_path }, context, "Upload by path failed", async ({ session, file }) => {
      const host = await findHostFile(host_path, context);
      if (!overwrite && (await isThere(session, file))) {
        throw new ReportedError(`Destination already exists: ${destination_path} (set overwrite=True to replace)`);
      }
      const bytes = await readHostFile(host);
      await write(session, file, bytes);
      return { status: "success", sandbox_path: destination_path, size: String(bytes.length) };
    }),
});

const listDir = defineTool04({
  name: "list_dir",
  description: "Lists the session's folder, or a folder below it: names, sizes and times.",
  readOnly: true,
  input: z.object({ session_id: z.string(), path: z.string().default("") }),
  values: LISTS_OR_STRINGS,
  run: (input, context) =>
    inSession(
      input,
      context,
      "List directory failed",
      async ({ session, file }) => {
        const missing = `Path not found: ${servedPath(session, file, context)}`;
        if (isHidden(file)) throw new ReportedError(`List directory failed: ${missing}`);
        try {
          return { error: "", result: await listing(session.workspace, file) };
        } catch (error) {
          if (hasCode(error, "file_not_found")) throw new ReportedError(`List directory failed: ${missing}`);
          if (hasCode(error, "invalid_input")) throw new ReportedError(`Not a directory: ${input.path}`);
          throw error;
        }
      },
      { result: [] },
    ),
});

const readFile = defineTool04({
  name: "read_file",
  description:
    "Returns numbered lines of a text file in the session: at most limit lines, starting at offset; by default the first 200. Use download_file for binary files.",
  readOnly: true,
  input: z.object({
    session_id: z.string(),
    path: z.string(),
    offset: lenientInteger.default(1),
    limit: lenientInteger.default(200),
  }),
  values: true,
  async run({ session_id, path: given, offset, limit }, context) {
    if (offset < 1) return objectReply({ error: "offset must be >= 1" });
    if (limit < 1) return objectReply({ error: "limit must be >= 1" });
    return inSession({ session_id, path: given }, context, "Read failed", async ({ session, file }) => {
      const text = utf8Text(await readBytes(session, file, given));
      if (text === undefined) {
        throw new ReportedError(
          "Binary files cannot be read with read_file. Use download_file to retrieve binary content.",
        );
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

const writeFile = defineTool04({
  name: "write_file",
  description:
    "Creates or replaces a text file in the session, and creates missing parent folders. Use upload_file_path for binary files.",
  readOnly: false,
  input: z.object({ session_id: z.string(), path: z.string(), content: z.string() }),
  values: true,
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

const editFile = defineTool04({
  name: "edit_file",
  description:
    "Replaces old_string with new_string in a text file in the session. It must occur exactly once, unless replace_all=True. If there is no exact match, whitespace around each line is ignored, then the common indent. Read the file first.",
  readOnly: false,
  input: z.object({
    session_id: z.string(),
    path: z.string(),
    old_string: z.string(),
    new_string: z.string(),
    replace_all: lenientBoolean.default(false),
  }),
  values: true,
  run: (input, context) =>
    inSession(input, context, "Edit failed", async ({ session, file }) => {
      const before = utf8Text(await readBytes(session, file, input.path));
      if (before === undefined) {
        throw new ReportedError(
          "Binary files cannot be edited with edit_file. Use execute_code to manipulate binary content.",
        );
      }
      const { old_string: oldText, new_string: newText, replace_all: replaceAll } = input;
      if (oldText === "") {
        throw new ReportedError("old_string must not be empty; use write_file to create or overwrite files");
      }
      const edited = editLoosely(before, { oldText, newText, replaceAll });
      if ("found" in edited) throw new ReportedError(edited.found === 0 ? NO_MATCH : several(edited.found));
      await write(session, file, Buffer.from(edited.text));
      return { status: "ok", path: input.path, replacements: edited.replaced };
    }),
});

const tools = [downloadFile, uploadFilePath, listDir, readFile, writeFile, editFile];

export function fileTools(state: State): Tool[] {
  return tools.map((tool) => tool(state));
}

const NO_MATCH =
  "old_string not found in file. Verify that old_string exactly matches the text you want to replace (including surrounding context, whitespace, and indentation).";

function several(count: number): string {
  return `Found ${count} occurrences of old_string. Provide more surrounding context to uniquely identify the target location, or set replace_all=True to replace every occurrence.`;
}

/** base64 in lines, like Python's `base64.encodebytes`. */
function base64Of(bytes: Uint8Array): string {
  const lines =
    Buffer.from(bytes)
      .toString("base64")
      .match(new RegExp(`.{1,${BASE64_CHARS}}`, "g")) ?? [];
  return lines.map((line) => `${line}\n`).join("");
}
