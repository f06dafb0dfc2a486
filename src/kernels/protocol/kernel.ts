import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { CellwrightError } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
import { isRecord } from "../checked-event.ts";
import type {
  ExecuteOptions,
  Inspection,
  InstalledPackage,
  InstallOptions,
  Kernel,
  KernelInfo,
  Preparation,
  PrepareOptions,
  Variable,
} from "../kernel.ts";
import { unlessAborted } from "../starting.ts";
import { CellRun, type CellRunParts } from "./cell-run.ts";
import type { JupyterChannel } from "./channel.ts";
import { eventOf } from "./events.ts";
import { type ChannelName, createMessage, type JupyterMessage, type MessageOptions } from "./message.ts";
import type { Parentage } from "./message-gate.ts";

/** Controls the kernel's process: `local/kernel-process.ts`, or a Jupyter server. */
export interface KernelLife {
  /** SIGINT to the interpreter itself. */
  interrupt(): Promise<void>;
  /** Kills the interpreter and all processes it started. May be called twice. */
  kill(reason: string): Promise<void>;
  /** Resolves when it is gone, with a reason for the user. Never rejects. */
  readonly exited: Promise<{ reason: string }>;
}

/** Sends a question to our code in the kernel, even while a cell runs. Undefined after a timeout. */
export type Ask = (question: Question) => Promise<Record<string, unknown> | undefined>;
interface PipQuestion {
  pipLines: string;
  commands?: boolean | undefined;
  classic?: boolean | undefined;
}

/** `pipLines`: which lines of this cell install packages? `refresh`: packages were installed, reset import caches. */
export type Question = { inspect: Inspection } | PipQuestion | { refresh: true };

export interface KernelInstaller {
  /** A cheap test for cells that may install packages; most do not. */
  wants: RegExp;
  prepare(code: string, options: PrepareOptions): Promise<Preparation>;
  install(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]>;
  /** The kernel is gone: aborts running installations. */
  end(): Promise<void>;
}

export interface JupyterKernelParts {
  info: KernelInfo;
  channel: JupyterChannel;
  life: KernelLife;
  /** Absent: packages cannot be installed. */
  installer?: ((ask: Ask) => KernelInstaller) | undefined;
  /** The header `session` of requests. An adopted kernel keeps that of its former server. */
  clientSession?: string | undefined;
  /** The journal's output of a cell: the last output of a dying process may be lost in the sockets. */
  shownBy?: ((cellId: string) => Promise<ExecutionEvent[]>) | undefined;
  /** Removes the kernel's files; `closed` waits for it, so that another kernel can take its place. */
  removeFiles?: (() => Promise<void>) | undefined;
}

/** Timeout of a question. Python code lets it through within milliseconds, native code may not. */
const ANSWER_MS = 1_500;
/** A cell that caught the first interrupt gets a second one after this time. */
const SECOND_INTERRUPT_MS = 500;
/** After the process is gone: its last output is still in the sockets. */
const LAST_WORDS_MS = 100;
/** Cells whose late output is still delivered. */
const LATE_CELLS = 50;
/** ipykernel raises EOFError for it. */
const END_OF_INPUT = "\u0004";

/** A Jupyter kernel that runs our `python/kernel/boot.py`. Listens to the channel at once. */
export class JupyterKernel implements Kernel {
  readonly info: KernelInfo;
  readonly closed: Promise<{ reason: string }>;
  readonly prepare?: Kernel["prepare"];
  readonly install?: Kernel["install"];
  readonly #channel: JupyterChannel;
  readonly #life: KernelLife;
  readonly #installer: KernelInstaller | undefined;
  readonly #shownBy: JupyterKernelParts["shownBy"];
  readonly #removeFiles: JupyterKernelParts["removeFiles"];
  readonly #session: string;
  readonly #answers = new Map<string, (content: Record<string, unknown> | undefined) => void>();
  readonly #lateListeners = new Map<string, (event: ExecutionEvent) => void>();
  #run: CellRun | undefined;
  #interrupting: Promise<void> | undefined;
  #closedReason: string | undefined;

  constructor(parts: JupyterKernelParts) {
    this.info = parts.info;
    this.#channel = parts.channel;
    this.#life = parts.life;
    this.#shownBy = parts.shownBy;
    this.#removeFiles = parts.removeFiles;
    this.#session = parts.clientSession ?? randomUUID();
    const installer = parts.installer?.((question) => this.#ask(question));
    this.#installer = installer;
    if (installer) {
      this.prepare = async (code, options) =>
        installer.wants.test(code) ? installer.prepare(code, options) : undefined;
      this.install = (requirements, options) => installer.install(requirements, options);
    }
    this.#channel.judgeBy?.((parentId) => this.#parentage(parentId));
    this.#channel.listen((message) => this.#take(message));
    void this.#channel.closed.then(({ reason }) => this.#life.kill(reason));
    this.closed = this.#life.exited.then(({ reason }) => this.#end(reason));
  }

  get busy(): boolean {
    return this.#run !== undefined && !this.#run.ended;
  }

  async *execute(code: string, options: ExecuteOptions = {}): AsyncGenerator<ExecutionEvent, void> {
    const { silent = false, onInput, onLate } = options;
    const content = {
      code,
      silent,
      store_history: !silent,
      user_expressions: {},
      allow_stdin: onInput !== undefined,
      // Otherwise the kernel rejects requests for a moment after an error.
      stop_on_error: false,
    };
    const request = this.#message("shell", "execute_request", content, beside(options));
    const run = this.#begin({ id: request.header.msg_id, options: { silent, onInput }, onLate });
    // A pending signal is meant for the previous cell.
    await this.#interrupting;
    void this.#channel.send(request);
    yield* run.events();
  }

  /** The events of a cell that is already running: those in `before`, then new ones. */
  async *resume(cellId: string, before: ExecutionEvent[]): AsyncGenerator<ExecutionEvent, void> {
    const run = this.#begin({ id: cellId, options: {} });
    for (const event of before) run.show(event);
    yield* run.events();
  }

  async settled(signal: AbortSignal): Promise<void> {
    const isGone = this.#channel.settled && !(await unlessAborted(this.#channel.settled(), signal));
    if (isGone) await unlessAborted(this.closed, signal);
  }

  async interrupt(): Promise<void> {
    const run = this.#run;
    if (!run || run.ended) return;
    run.interrupted = true;
    // A signal that arrives before the cell is ignored. The kernel remembers this message, and accepts the signal then.
    await this.#channel.send(this.#message("control", "cellwright_interrupt", { cell: run.id }));
    await this.#signal(run);
    setTimeout(() => void this.#signal(run), SECOND_INTERRUPT_MS).unref();
  }

  async inspect(query: Inspection): Promise<Variable[]> {
    const answer = await this.#ask({ inspect: query });
    if (answer && Array.isArray(answer.variables)) return answer.variables.filter(isVariable);
    throw new CellwrightError(
      "kernel_busy",
      "The kernel is busy in native code, and its variables cannot be seen meanwhile.",
    );
  }

  async dispose(): Promise<void> {
    await this.#life.kill("The kernel was closed.");
    await this.closed;
  }

  async #signal(run: CellRun): Promise<void> {
    if (run.ended) return;
    this.#interrupting = this.#life.interrupt();
    await this.#interrupting;
  }

  #begin(cell: Pick<CellRunParts, "id" | "options"> & Pick<ExecuteOptions, "onLate">): CellRun {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    if (this.busy) throw new CellwrightError("kernel_busy", "The kernel is running another cell.");
    const run = new CellRun({ ...cell, hold: (held) => this.#channel.holdOutput?.(held) });
    this.#run = run;
    if (cell.onLate) {
      this.#lateListeners.set(cell.id, cell.onLate);
      const [oldest] = this.#lateListeners.keys();
      if (oldest !== undefined && this.#lateListeners.size > LATE_CELLS) this.#lateListeners.delete(oldest);
    }
    return run;
  }

  #take(message: JupyterMessage): void {
    if (message.channel === "iopub") this.#hear(message);
    else if (message.channel === "stdin") void this.#answerInput(message);
    else this.#takeReply(message);
  }

  #parentage(parentId: string | undefined): Parentage {
    if (parentId === undefined) return "unknown";
    if ((this.#run?.id === parentId && !this.#run.ended) || this.#answers.has(parentId)) return "asked";
    return this.#lateListeners.has(parentId) ? "late" : "unknown";
  }

  /** Handles iopub: output and status. */
  #hear(message: JupyterMessage): void {
    const cellId = message.parent.msg_id;
    const run = this.#run?.id === cellId && !this.#run?.ended ? this.#run : undefined;
    if (message.header.msg_type === "status") {
      if (message.content.execution_state === "idle") run?.idle();
      return;
    }
    const event = eventOf(message);
    if (!event || cellId === undefined) return;
    if (run) run.show(event);
    else this.#lateListeners.get(cellId)?.(event);
  }

  #takeReply(message: JupyterMessage): void {
    const id = message.parent.msg_id;
    if (id === undefined) return;
    if (message.header.msg_type === "execute_reply" && this.#run?.id === id) this.#run.reply(message.content);
    else this.#answers.get(id)?.(message.content);
  }

  async #answerInput(message: JupyterMessage): Promise<void> {
    const run = this.#run;
    if (message.header.msg_type !== "input_request" || !run || run.ended || run.id !== message.parent.msg_id) return;
    const { prompt, password } = message.content;
    const request = { prompt: typeof prompt === "string" ? prompt : "", secret: password === true };
    const value = await run.options.onInput?.(request).catch(() => undefined);
    const reply = this.#message("stdin", "input_reply", { value: value ?? END_OF_INPUT }, { parent: message.header });
    await this.#channel.send(reply);
  }

  async #ask(question: Question): Promise<Record<string, unknown> | undefined> {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    const request = this.#message("control", "cellwright_request", { ...question });
    const id = request.header.msg_id;
    const answered = new Promise<Record<string, unknown> | undefined>((resolve) => this.#answers.set(id, resolve));
    const patience = new AbortController();
    try {
      await this.#channel.send(request);
      const given = await Promise.race([
        answered,
        pause(ANSWER_MS, undefined, { signal: patience.signal }).catch(() => undefined),
      ]);
      if (given === undefined && this.#closedReason !== undefined) throw died(this.#closedReason);
      return given;
    } finally {
      patience.abort();
      this.#answers.delete(id);
    }
  }

  /** The process is gone: ends the running cell and all pending questions. */
  async #end(reason: string): Promise<{ reason: string }> {
    if (this.#run && !this.#run.ended) await pause(LAST_WORDS_MS);
    this.#closedReason = reason;
    await this.#channel.close();
    if (this.#run && !this.#run.ended) await this.#addLastWords(this.#run);
    await this.#installer?.end();
    this.#run?.fail(died(reason));
    for (const answer of this.#answers.values()) answer(undefined);
    await this.#removeFiles?.();
    return { reason };
  }

  /** The journal has the order of sending, so what was received is a prefix of it. */
  async #addLastWords(run: CellRun): Promise<void> {
    const events = (await this.#shownBy?.(run.id)) ?? [];
    for (const event of events.slice(run.shown)) run.show(event);
  }

  #message(
    channel: ChannelName,
    type: string,
    content: Record<string, unknown>,
    options: Omit<MessageOptions, "session"> = {},
  ): JupyterMessage {
    return createMessage(channel, type, content, { ...options, session: this.#session });
  }
}

/** Variables go into the request's metadata, bytes into its buffers; `python/kernel/kernel.py` unpacks them. */
function beside(options: ExecuteOptions): Pick<MessageOptions, "metadata" | "buffers"> {
  const { variables = {}, script, value, commands, classic } = options;
  const entries = Object.entries(variables);
  if (entries.length === 0 && !script && !value && !commands && !classic) return {};
  const bytes = entries.filter((entry): entry is [string, Uint8Array] => entry[1] instanceof Uint8Array);
  const values = Object.fromEntries(entries.filter(([, value]) => !(value instanceof Uint8Array)));
  return {
    metadata: {
      cellwright: {
        values,
        bytes: bytes.map(([name]) => name),
        ...(script ? { script } : {}),
        ...(value ? { value } : {}),
        ...(commands ? { commands: options.replay ? "again" : "run" } : {}),
        ...(classic ? { classic } : {}),
      },
    },
    buffers: bytes.map(([, data]) => data),
  };
}

function died(reason: string): CellwrightError {
  return new CellwrightError("kernel_died", reason);
}

function isVariable(value: unknown): value is Variable {
  return (
    isRecord(value) &&
    typeof value.name === "string" &&
    typeof value.type === "string" &&
    typeof value.summary === "string"
  );
}
