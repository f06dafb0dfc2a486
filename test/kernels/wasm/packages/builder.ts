import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Image, PackagesConfig } from "../../../../src/kernels/wasm/packages/packages.ts";
import { findSources, type Sources } from "../../../../src/kernels/wasm/sources.ts";

export interface Builder {
  child: ChildProcess;
  /** Everything that it printed, when it has ended. */
  ended: Promise<{ image?: Image; error?: string; progress: string[] }>;
}

/** Starts processes that request images; `around` is a program that starts them, with its arguments. */
export function builders(): (
  config: Omit<PackagesConfig, "log">,
  requirements: string[],
  options?: { sources?: Sources; around?: string[] },
) => Builder {
  return (config, requirements, { sources = findSources(), around = [] } = {}) => {
    const request = JSON.stringify({ config, sources, requirements });
    const [command = "", ...args] = [...around, process.execPath, join(import.meta.dirname, "builder.mjs"), request];
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    const outcome: Awaited<Builder["ended"]> = { progress: [] };
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      const { progress, ...rest } = JSON.parse(line);
      if (progress) outcome.progress.push(progress);
      Object.assign(outcome, rest);
    });
    return { child, ended: new Promise((resolve) => lines.on("close", () => resolve(outcome))) };
  };
}
