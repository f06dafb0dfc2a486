import { mkdir } from "node:fs/promises";
import { jailHostDir, probeForkJail } from "../../jail/fork-jail.ts";
import type { Walls } from "../../jail/walls.ts";
import type { Log } from "../../log.ts";
import { hostDir, preludeDir } from "./cold.ts";
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
  readonly #walls: Pick<Walls, "isolation" | "enclosure">;
  readonly #log: Log;
  readonly #former: Zygote[] = [];
  readonly #attempts = new Map<string, Promise<ZygoteAttempt>>();

  constructor(parts: { stateDir: string; walls: Pick<Walls, "isolation" | "enclosure">; log: Log }) {
    const { stateDir, walls, log } = parts;
    this.#stateDir = stateDir;
    this.#walls = walls;
    this.#log = log;
  }

  /** Only of an environment that the operator vouches for: its packages are imported outside of the sessions' jails. */
  async get(environment: PythonEnvironment): Promise<ZygoteAttempt> {
    if (environment.coldReason !== undefined) return { reason: environment.coldReason };
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

  async #open({ python, readPaths }: PythonEnvironment, stamp: string): Promise<ZygoteAttempt> {
    try {
      const isolation = await this.#walls.isolation();
      const obstacle = isolation && (await probeForkJail(python, isolation));
      if (obstacle) throw new Error(obstacle);
      const stateDir = this.#stateDir;
      await mkdir(stateDir, { recursive: true, mode: 0o700 });
      const readable = [...readPaths, hostDir, preludeDir, jailHostDir];
      const enclosure = await this.#walls.enclosure({ readable, writable: [stateDir] });
      const zygote = await openZygote({ python, stamp, preload: PRELOAD, stateDir, enclosure, log: this.#log });
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
