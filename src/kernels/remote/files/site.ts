import type { Log } from "../../../log.ts";
import { Instances } from "../history/instances.ts";
import type { MirrorPlace } from "../history/mirror.ts";
import type { JupyterServer } from "../server/server.ts";
import { ServerHelper } from "./helper.ts";

export interface SiteParts {
  server: JupyterServer;
  notebooksFolder: string;
  /** Unique per start of this process. */
  instance: string;
  startTimeoutMs: number;
  log: Log;
}

/** One Jupyter server with its helper kernel and the registry of instances that use it. */
export class Site {
  readonly server: JupyterServer;
  readonly helper: ServerHelper;
  readonly instances: Instances;
  readonly place: MirrorPlace;
  readonly #log: Log;
  #opened: Promise<void> | undefined;

  constructor({ server, notebooksFolder, instance, startTimeoutMs, log }: SiteParts) {
    this.server = server;
    this.#log = log;
    this.helper = new ServerHelper(server, log, {
      startTimeoutMs,
      onStart: (id) => this.#note(this.instances.noteKernel(id, {})),
      onEnd: (id) => this.#note(this.instances.forgetKernel(id)),
    });
    this.place = { name: server.name, call: this.helper.call, notebooksFolder, instance };
    this.instances = new Instances({ server, place: this.place, log });
  }

  get name(): string {
    return this.server.name;
  }

  /** Registers this instance, and deletes orphaned kernels. Runs once; a failure is logged. */
  open(): Promise<void> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  async #open(): Promise<void> {
    try {
      await this.instances.start();
      await this.instances.sweep();
    } catch (error) {
      this.#log.warn(`${this.name}: cannot register this Cellwright there`, error);
    }
  }

  async dispose(): Promise<void> {
    if (this.#opened) {
      await this.#opened;
      await this.instances.dispose();
    }
    await this.helper.dispose();
  }

  #note(noting: Promise<void>): void {
    noting.catch((error) => this.#log.debug(`${this.name}: the purpose of a kernel was not recorded: ${error}`));
  }
}
