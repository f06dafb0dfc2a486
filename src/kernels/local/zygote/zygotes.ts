import { mkdir } from "node:fs/promises";
import { jailHostDir, probeForkJail } from "../../../isolation/fork-jail.ts";
import type { Sandboxes } from "../../../isolation/sandboxes.ts";
import type { Log } from "../../../log.ts";
import { packageDirs, zygoteDir } from "../../python/folders.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import { connectZygote, openZygote } from "./start.ts";
import type { Zygote } from "./zygote.ts";

/** Imported in advance: slow to import, often used, and importable without starting threads. */
const PRELOAD = ["numpy", "pandas", "matplotlib.pyplot", "matplotlib_inline.backend_inline"];

/** After a failure, kernels get a cold start for this long before the next attempt to start a zygote. */
const RETRY_MS = 5 * 60_000;

/** A zygote, or why it is not available. */
export type ZygoteAttempt = { zygote: Zygote; reason?: undefined } | { zygote?: undefined; reason: string };

/** The zygotes of this process, one per environment, started on first use. */
export class Zygotes {
  readonly #stateDir: string;
  readonly #sandboxes: Pick<Sandboxes, "isolation" | "enclosure">;
  readonly #log: Log;
  readonly #former: Zygote[] = [];
  readonly #attempts = new Map<string, Promise<ZygoteAttempt>>();

  constructor(parts: { stateDir: string; sandboxes: Pick<Sandboxes, "isolation" | "enclosure">; log: Log }) {
    const { stateDir, sandboxes, log } = parts;
    this.#stateDir = stateDir;
    this.#sandboxes = sandboxes;
    this.#log = log;
  }

  /** Vouched environments only: a zygote imports their packages outside the sessions' jails. */
  async get(environment: PythonEnvironment): Promise<ZygoteAttempt> {
    if (environment.coldReason !== undefined) return { reason: environment.coldReason };
    const key = stampOf(environment);
    const known = this.#attempts.get(key);
    if (known) return known;
    const attempt = this.#open(environment, key);
    this.#attempts.set(key, attempt);
    return attempt;
  }

  /** Connects to the zygote of an earlier server. */
  async at(socketFile: string): Promise<Zygote | undefined> {
    const zygote = await connectZygote(socketFile);
    if (zygote) this.#former.push(zygote);
    return zygote;
  }

  async #open({ python, readPaths }: PythonEnvironment, stamp: string): Promise<ZygoteAttempt> {
    try {
      const isolation = await this.#sandboxes.isolation();
      const obstacle = isolation && (await probeForkJail(python, isolation));
      if (obstacle) throw new Error(obstacle);
      const stateDir = this.#stateDir;
      await mkdir(stateDir, { recursive: true, mode: 0o700 });
      const readable = [...readPaths, zygoteDir, ...packageDirs, jailHostDir];
      const enclosure = await this.#sandboxes.enclosure({ readable, writable: [stateDir] });
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
