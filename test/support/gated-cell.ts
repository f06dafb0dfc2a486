import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "./until.ts";

/** A cell in three parts: a test sees when it is in the first one, and releases it into the others. */
export const gatedCell = [
  "import os, time",
  "print('before', flush=True)",
  "open('begun', 'w').close()",
  "while not os.path.exists('go'): time.sleep(0.05)",
  "print('meanwhile', flush=True)",
  "while not os.path.exists('end'): time.sleep(0.05)",
  "print('after', flush=True)",
  "kept + 1",
].join("\n");

export const gatesOf = (folder: string) => ({
  begun: () => until("the cell to have begun", () => existsSync(join(folder, "begun"))),
  open: (gate: "go" | "end") => writeFileSync(join(folder, gate), ""),
});
