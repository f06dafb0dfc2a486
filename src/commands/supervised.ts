import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";

/** Who ends at once and again is not started without a pause, which doubles up to the longest. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** Who ran for so long did not end because of how it was started. */
const STEADY_MS = 10_000;
/** Longer than a `serve` takes to leave, which has a backstop of its own. */
const STOP_MS = 20_000;

export interface SupervisedParts {
  name: string;
  /** Of this same program. */
  args: string[];
  /** What it is told beside the environment of this process. */
  env?: Record<string, string>;
  log: Log;
}

/** A `serve` in a process of its own, which is started again when it ends. */
export class Supervised {
  readonly #parts: SupervisedParts;
  #child: ChildProcess | undefined;
  #pause: NodeJS.Timeout | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #isStopping = false;

  constructor(parts: SupervisedParts) {
    this.#parts = parts;
  }

  /** Resolves with its address. Throws if it ends before it listens: what is wrong at the first start stays wrong. */
  async start(): Promise<string> {
    const { child, listening } = this.#spawn();
    const url = await listening;
    if (url === undefined) {
      throw new CellwrightError(
        "kernel_start_failed",
        `The sandbox on port ${this.#parts.name} ended before it listened, with code ${child.exitCode}.`,
        { hint: "What it said is above." },
      );
    }
    this.#watch(child);
    return url;
  }

  /** Ends it for good, within bounded time. Can be called twice. */
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
    if (program === undefined) throw new Error("this program does not know its own path");
    // The channel tells it when we are gone, however that came about.
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
      this.#parts.log.warn(`the sandbox on port ${this.#parts.name} ended (${reason}); it is started again`);
      this.#pause = setTimeout(() => this.#watch(this.#spawn().child), this.#pauseMs);
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    };
    if (child.exitCode !== null || child.signalCode !== null) again("at once");
    else child.once("exit", (code, signal) => again(signal ?? `code ${code}`));
  }
}
