import type { Interpreter } from "./interpreter.ts";
import type { ReportProgress } from "./progress.ts";

type CommandLine = [string, ...string[]];

/** A program that makes environments and puts packages into them. */
export interface Installer {
  name: "uv" | "pip";
  /** It writes byte code by itself. */
  compiles: boolean;
  makeEnvironment(base: Interpreter, folder: string): CommandLine;
  install(python: string, words: string[]): CommandLine;
  /** Turns the lines that it prints into progress. */
  listen(report: ReportProgress): (line: string) => void;
}

/** The Python's own means, which are slower than uv by a minute. */
export function pipInstaller(): Installer {
  return {
    name: "pip",
    compiles: true,
    makeEnvironment: (base, folder) => [base.python, "-I", "-m", "venv", folder],
    install: (python, words) => [python, "-I", "-m", "pip", "install", "--progress-bar", "off", ...words],
    listen: followPip,
  };
}

/** How many packages the standard ones are with all that they need; only for how far the bar has come. */
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
