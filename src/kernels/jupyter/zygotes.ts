import { probeForkJail } from "../../jail/fork-jail.ts";
import type { Log } from "../../log.ts";
import type { PythonEnvironment } from "./environments/environment.ts";
import type { Zygote } from "./zygote.ts";
import { connectZygote, openZygote } from "./zygote-start.ts";

/** What kernels need not import again: heavy, asked for often, and importable without starting threads. */
const PRELOAD = ["numpy", "pandas", "matplotlib.pyplot", "matplotlib_inline.backend_inline"];

/** After a failure, kernels are started from nothing for so long before a zygote is tried again. */
const RETRY_MS = 5 * 60_000;

/** A zygote, or why there is none. */
export type ZygoteAttempt = { zygote: Zygote; reason?: undefined } | { zygote?: undefined; reason: string };

/** The zygotes of this process's environments, started when they are first wanted. */
export class Zygotes {
  readonly #stateDir: string;
  readonly #jailed: boolean;
  readonly #log: Log;
  readonly #former: Zygote[] = [];
  readonly #attempts = new Map<string, Promise<ZygoteAttempt>>();

  /** `jailed`: whether what is forked has to enter a jail. */
  constructor({ stateDir, jailed, log }: { stateDir: string; jailed: boolean; log: Log }) {
    this.#stateDir = stateDir;
    this.#jailed = jailed;
    this.#log = log;
  }

  get(environment: PythonEnvironment): Promise<ZygoteAttempt> {
    const key = stampOf(environment);
    const known = this.#attempts.get(key);
    if (known) return known;
    const attempt = this.#open(environment, key);
    this.#attempts.set(key, attempt);
    return attempt;
  }

  /** The one behind a socket, from which an earlier run of the program forked. */
  async at(socketFile: string): Promise<Zygote | undefined> {
    const zygote = await connectZygote(socketFile);
    if (zygote) this.#former.push(zygote);
    return zygote;
  }

  async #open({ python }: PythonEnvironment, stamp: string): Promise<ZygoteAttempt> {
    try {
      const obstacle = this.#jailed ? await probeForkJail(python) : undefined;
      if (obstacle) throw new Error(obstacle);
      const zygote = await openZygote({ python, stamp, preload: PRELOAD, stateDir: this.#stateDir, log: this.#log });
      void zygote.closed.then(() => this.#attempts.delete(stamp));
      return { zygote };
    } catch (error) {
      setTimeout(() => this.#attempts.delete(stamp), RETRY_MS).unref();
      return { reason: error instanceof Error ? error.message : String(error) };
    }
  }

  async dispose(): Promise<void> {
    const attempts = await Promise.all(this.#attempts.values());
    await Promise.all([...attempts.map(({ zygote }) => zygote), ...this.#former].map((zygote) => zygote?.dispose()));
  }
}

function stampOf({ python, version, ipykernel, packages }: PythonEnvironment): string {
  return JSON.stringify([python, version, ipykernel, packages]);
}
