import { CellwrightError } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { shown } from "./path.ts";
import { failedWith } from "./system-error.ts";

/** What all workspaces say, wherever their files are, when something is not done. */

export function missing(path: string, name: string, there: string[]): CellwrightError {
  const alike = nearest(name, there).map((other) => `\`${shown(other)}\``);
  const suggestion = alike.length > 0 ? ` Near it: ${alike.join(", ")}.` : "";
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
  return new CellwrightError("kernel_busy", "A folder was filled while it was removed.");
}

/** What the operating system said about a path, in our words. What we have no word for stays as it is. */
export function explain(error: unknown, path: string): unknown {
  const say = (ours: "file_not_found" | "invalid_input" | "path_outside_session" | "storage_full", what: string) =>
    new CellwrightError(ours, `\`${shown(path)}\` ${what}.`, { cause: error });
  switch (failedWith(error) ? error.code : undefined) {
    case "ENOENT":
      return say("file_not_found", "is not in the workspace");
    case "ENOTDIR":
      return say("file_not_found", "is not in the workspace: a part of it is not a folder");
    case "ELOOP":
    case "EINVAL":
      return say("path_outside_session", "was refused: a part of it was replaced meanwhile");
    case "ENAMETOOLONG":
      return say("invalid_input", "has a name longer than this file system takes (255 bytes)");
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
