import type { CreateOptions } from "../../../kernel.ts";
import type { Interpreter } from "../probe/interpreter.ts";
import type { CommandLine } from "./command.ts";

export type ReportProgress = CreateOptions["progress"];

/** A program that creates environments and installs packages. */
export interface Installer {
  name: "uv" | "pip";
  /** Whether it compiles byte code itself. */
  compiles: boolean;
  makeEnvironment(base: Interpreter, folder: string): CommandLine;
  install(python: string, words: string[]): CommandLine;
  /** Turns its output lines into progress. */
  listen(report: ReportProgress): (line: string) => void;
}

/** venv and pip, which take a minute longer than uv. */
export function pipInstaller(): Installer {
  return {
    name: "pip",
    compiles: true,
    makeEnvironment: (base, folder) => [base.python, "-I", "-m", "venv", folder],
    install: (python, words) => [python, "-I", "-m", "pip", "install", "--progress-bar", "off", ...words],
    listen: followPip,
  };
}

/** Number of standard packages including dependencies; used only for the progress bar. */
const EXPECTED_PACKAGES = 66;

function followPip(report: ReportProgress): (line: string) => void {
  let collected = 0;
  return (line) => {
    const name = /^\s*Collecting ([\w.-]+)/.exec(line)?.[1];
    if (name) {
      collected += 1;
      report({ fraction: Math.min(0.7, (0.7 * collected) / EXPECTED_PACKAGES), message: `downloading ${name}` });
    }
    if (line.startsWith("Installing collected packages")) report({ fraction: 0.75, message: "unpacking" });
    if (line.startsWith("Successfully installed")) report({ fraction: 1, message: "unpacked" });
  };
}
