import { CellwrightError } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { failedWith } from "../system-error.ts";
import { shown } from "./path.ts";

/** Error messages shared by all workspaces, local and remote. */

export function missing(path: string, name: string, there: string[]): CellwrightError {
  const alike = nearest(name, there).map((other) => `\`${shown(other)}\``);
  const suggestion = alike.length > 0 ? ` Similar names: ${alike.join(", ")}.` : "";
  return new CellwrightError("file_not_found", `There is no \`${shown(path)}\` in the workspace.${suggestion}`);
}

export function tooLarge(path: string, sizeBytes: bigint | number, maxBytes: number): CellwrightError {
  const message = `\`${shown(path)}\` has ${sizeBytes} bytes; at most ${maxBytes} can be read at once.`;
  return new CellwrightError("too_large", message);
}

export function keptChanging(path: string): CellwrightError {
  return new CellwrightError("kernel_busy", `\`${shown(path)}\` kept changing while it was read.`);
}

export function keptFilling(): CellwrightError {
  return new CellwrightError("kernel_busy", "A cell kept adding files to the folder while it was being removed.");
}

/** Translates a system error about a path. Errors without a translation stay as they are. */
export function explain(error: unknown, path: string): unknown {
  const say = (code: "file_not_found" | "invalid_input" | "path_outside_session" | "storage_full", what: string) =>
    new CellwrightError(code, `\`${shown(path)}\` ${what}.`, { cause: error });
  switch (failedWith(error) ? error.code : undefined) {
    case "ENOENT":
      return say("file_not_found", "is not in the workspace");
    case "ENOTDIR":
      return say("file_not_found", "is not in the workspace: a part of it is not a folder");
    case "ELOOP":
    case "EINVAL":
      return say("path_outside_session", "was refused: a part of it was replaced meanwhile");
    case "ENAMETOOLONG":
      return say("invalid_input", "has a name longer than the file system allows (255 bytes)");
    case "EACCES":
    case "EPERM":
      return say("invalid_input", "may not be opened: its permissions forbid it");
    case "EISDIR":
    case "ENOTEMPTY":
    case "EEXIST":
      return say("invalid_input", "is a folder");
    case "ENOSPC":
    case "EDQUOT":
      return say("storage_full", "could not be written: the disk is full");
    default:
      return error;
  }
}
