import { CellwrightError } from "../../errors.ts";
import type { Mark, Workspace } from "../../workspace/workspace.ts";

const NOTHING: Mark = { files: new Map(), complete: true };

/** Sandboxes run code and return its output; they cannot transfer files. */
export function createPoolWorkspace(): Workspace {
  const refuse = async (): Promise<never> => {
    throw new CellwrightError(
      "not_supported",
      "Files of a session in a sandbox pool can only be accessed by its cells.",
      {
        hint: "Read and write files in a cell, and print the relevant parts.",
      },
    );
  };
  return {
    list: refuse,
    read: refuse,
    write: refuse,
    remove: refuse,
    mark: async () => NOTHING,
    changedSince: async () => ({ changes: [], complete: true, totalBytes: 0, mark: NOTHING }),
  };
}
