import { CellwrightError } from "../../errors.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** Sandboxes run code and show what it printed; they have no way to hand over files. */
export function createPoolWorkspace(): Workspace {
  const refuse = async (): Promise<never> => {
    throw new CellwrightError(
      "not_supported",
      "Files of a session in a sandbox pool can only be reached by its cells.",
      {
        hint: "Read and write files in a cell, and print what matters.",
      },
    );
  };
  return {
    list: refuse,
    read: refuse,
    write: refuse,
    remove: refuse,
    mark: async () => ({ files: new Map(), complete: true }),
    changedSince: async () => ({ changes: [], complete: true, totalBytes: 0 }),
  };
}
