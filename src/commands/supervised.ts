import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";

/** Back-off between restarts: doubles up to the maximum. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** A process that ran this long resets the back-off. */
const STEADY_MS = 10_000;
/** Longer than the shutdown of a `serve`, which has its own backstop. */
const STOP_MS = 20_000;

export interface SupervisedParts {
  name: string;
  /** Arguments of this same program. */
  args: string[];
  /** Added to the environment of this process. */
  env?: Record<string, string>;
  log: Log;
}

/** A `serve` in a child process, restarted when it exits. */
export class Supervised {
  readonly #parts: SupervisedParts;
  #child: ChildProcess | undefined;
  #pause: NodeJS.Timeout | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #isStopping = false;

  constructor(parts: SupervisedParts) {
    this.#parts = parts;
  }

  /** Resolves with its URL. Throws if it exits before it listens: retrying a failed first start would not help. */
  async start(): Promise<string> {
    const { child, listening } = this.#spawn();
    const url = await listening;
    if (url === undefined) {
      throw new CellwrightError(
        "kernel_start_failed",
        `The sandbox on port ${this.#parts.name} exited with code ${child.exitCode} before it listened.`,
        { hint: "Its output is above." },
      );
    }
    this.#watch(child);
    return url;
  }

  /** Stops it permanently, in bounded time. Can be called twice. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pause);
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    const backstop = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await exited;
    clearTimeout(backstop);
  }

  #spawn(): { child: ChildProcess; listening: Promise<string | undefined> } {
    const program = process.argv[1];
    if (program === undefined) throw new Error("cannot find the path of this program");
    // The IPC channel closes when this process ends, even by a crash; the child then exits.
    const child = spawn(process.execPath, [...process.execArgv, program, ...this.#parts.args], {
      stdio: ["ignore", "pipe", "inherit", "ipc"],
      env: { ...process.env, ...this.#parts.env },
    });
    this.#child = child;
    const listening = new Promise<string | undefined>((resolve) => {
      let said = "";
      child.stdout?.on("data", (chunk) => {
        said = (said + chunk).slice(0, 10_000);
        const url = /listens on (http\S+)\/mcp/.exec(said)?.[1];
        if (url !== undefined) resolve(url);
      });
      child.once("exit", () => resolve(undefined));
      child.once("error", () => resolve(undefined));
    });
    return { child, listening };
  }

  #watch(child: ChildProcess): void {
    const startedMs = performance.now();
    const again = (reason: string) => {
      if (this.#isStopping) return;
      if (performance.now() - startedMs >= STEADY_MS) this.#pauseMs = FIRST_PAUSE_MS;
      this.#parts.log.warn(`the sandbox on port ${this.#parts.name} exited (${reason}); restarting it`);
      this.#pause = setTimeout(() => this.#watch(this.#spawn().child), this.#pauseMs);
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    };
    if (child.exitCode !== null || child.signalCode !== null) again("at once");
    else child.once("exit", (code, signal) => again(signal ?? `code ${code}`));
  }
}
