import { isAbsolute, relative, sep } from "node:path";
import * as z from "zod";
import { CellwrightError, hasCode } from "../../errors.ts";
import { obeyedName } from "../../reach/obeyed.ts";
import { showBytes } from "../../render/text/amounts.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { findOpenSession, sessionArgument } from "../session-argument.ts";
import { defineTool, type ToolContext } from "../tool.ts";
import { fileUri } from "../uri.ts";
import { keptOutput, pathArgument, refuseKeptOutputs } from "./kept-outputs.ts";
import { saveFile } from "./save-file.ts";
import { secretName } from "./secret-names.ts";

/** The file is copied through memory. */
const MAX_BYTES = 512 * 1024 * 1024;

const hostPathArgument = z.string().min(1).describe("The user's file: absolute, or relative to --files-dir.");
const overwriteArgument = z.boolean().optional().describe("Replace an existing file.");

const importFile = defineTool({
  name: "import_file",
  title: "Import file",
  description: "Copies one of the user's own files into a session's workspace.",
  readOnly: false,
  input: z.object({
    session_id: sessionArgument,
    host_path: hostPathArgument,
    path: z.string().min(1).optional().describe("Where to put it in the workspace; default: its name."),
    overwrite: overwriteArgument,
  }),
  async run({ session_id, host_path, path, overwrite = false }, context) {
    const session = await findOpenSession(session_id, context);
    const { hostFiles, hostPath } = placeOnHost(host_path, context);
    const file = pathArgument(path ?? nameOf(hostPath), session);
    refuseKeptOutputs(file);
    const maxBytes = Math.min(MAX_BYTES, context.options.diskMb * 1024 * 1024);
    const { bytes } = await asHostFile(host_path, hostFiles.read(hostPath, { maxBytes }));
    if (!overwrite) await refuseIfThere(session.workspace, file);
    await saveFile(session, file, bytes, context.options);
    return {
      type: "text",
      text: `Copied ${shownPlace(hostFiles, hostPath, context)} to ${file} (${showBytes(bytes.length)}).`,
      links: [{ uri: fileUri(session.id, file), name: file, sizeBytes: bytes.length }],
      data: { path: file, size_bytes: bytes.length },
    };
  },
});

const exportFile = defineTool({
  name: "export_file",
  title: "Export file",
  description:
    "Copies a file of a session to the user's own files. Refuses names that other programs run or read as configuration; a replaced file loses its execute permission.",
  readOnly: false,
  destructive: true,
  input: z.object({
    session_id: sessionArgument,
    host_path: hostPathArgument.describe("Where to put it: absolute, or relative to --files-dir."),
    path: z.string().min(1).optional().describe("File in the workspace; default: the name of host_path."),
    overwrite: overwriteArgument,
  }),
  async run({ session_id, host_path, path, overwrite = false }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const { hostFiles, hostPath } = placeOnHost(host_path, context);
    const obeyed = obeyedName(hostPath);
    if (obeyed) throw refused(host_path, `other programs run \`${obeyed}\` or read it as configuration`);
    const file = pathArgument(path ?? nameOf(hostPath), session);
    const { bytes } =
      (await keptOutput(file, session, context.store)) ?? (await session.workspace.read(file, { maxBytes: MAX_BYTES }));
    if (!overwrite) await asHostFile(host_path, refuseIfThere(hostFiles, hostPath));
    await asHostFile(host_path, hostFiles.write(hostPath, bytes));
    return {
      type: "text",
      text: `Copied ${file} to ${shownPlace(hostFiles, hostPath, context)} (${showBytes(bytes.length)}).`,
      data: { path: file, size_bytes: bytes.length },
    };
  },
});

export default [importFile, exportFile];

/** The path below --files-dir that the caller means. The workspace resolves symlinks when it opens the file. */
function placeOnHost(given: string, { hostFiles }: ToolContext): { hostFiles: Workspace; hostPath: string } {
  if (!hostFiles) {
    throw new CellwrightError("host_path_refused", "This server has no --files-dir.", {
      hint: "Start it with --files-dir DIR, or send the content with write_file.",
    });
  }
  const root = hostFiles.hostPath?.(".");
  const below = isAbsolute(given) && root ? relative(root, given) : given;
  if (isAbsolute(below) || below.split(/[/\\]/).includes("..")) {
    throw refused(given, root ? `it is not below \`${root}\`` : "it is not below --files-dir");
  }
  const hostPath = below.split(sep).join("/");
  const secret = secretName(hostPath);
  if (secret) throw refused(given, `files named \`${secret}\` usually hold secrets`);
  return { hostFiles, hostPath };
}

/** Rewords errors about the user's file, which is not in the workspace. */
async function asHostFile<T>(given: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof CellwrightError)) throw error;
    if (error.code === "path_outside_session")
      throw refused(given, "it is not a regular file below --files-dir", error);
    if (error.code === "path_protected")
      throw refused(given, "programs outside the sandbox run it or read it as configuration", error);
    if (error.code !== "file_not_found") throw error;
    const message = error.message.replace("in the workspace", "below --files-dir");
    throw new CellwrightError("file_not_found", message, { cause: error, hint: "Check host_path." });
  }
}

async function refuseIfThere(workspace: Workspace, path: string): Promise<void> {
  try {
    await workspace.read(path, { maxBytes: 0 });
  } catch (error) {
    if (hasCode(error, "file_not_found")) return;
    if (!hasCode(error, "too_large")) throw error;
  }
  throw new CellwrightError("invalid_input", `\`${path}\` exists already.`, {
    hint: "Choose another name, or set overwrite to replace it.",
  });
}

function refused(given: string, reason: string, cause?: unknown): CellwrightError {
  return new CellwrightError("host_path_refused", `\`${given.slice(0, 300)}\` was refused: ${reason}.`, { cause });
}

/** A client on this machine can open the file, so it gets the full path. */
function shownPlace(hostFiles: Workspace, hostPath: string, { local }: ToolContext): string {
  return (local ? hostFiles.hostPath?.(hostPath) : undefined) ?? hostPath;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
