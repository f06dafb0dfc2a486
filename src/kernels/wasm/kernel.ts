import { CellwrightError } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
import { checkedEvent, isRecord } from "../checked-event.ts";
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
import { CellRun } from "./cell-run.ts";
import type { CellRequest, Report } from "./deno/frames.ts";
import { KernelPackages, type KernelPackagesParts } from "./kernel-packages.ts";
import type { KernelProcess } from "./process.ts";
import type { Watchdog } from "./watchdog.ts";

/** Timeout of a question while a cell runs: it is answered when the cell awaits. */
const BUSY_ANSWER_MS = 500;
/** Timeout between cells. An idle kernel always answers, unless leftover code of a cell blocks the event loop. */
const IDLE_ANSWER_MS = 30_000;
/** Cells whose late output is still delivered. */
const LATE_CELLS = 50;

export interface KernelParts {
  info: KernelInfo;
  process: KernelProcess;
  /** Resolves when the process is gone and its temporary files are removed. */
  closed: Promise<{ reason: string }>;
  watchdog: Watchdog;
  /** Called before each cell. */
  beforeCell?: (() => Promise<void>) | undefined;
  /** Source of its packages; without it, packages cannot be installed. */
  packages?: Omit<KernelPackagesParts, "ask"> | undefined;
}

/** The server's side of one Python in WebAssembly. */
export class WasmKernel implements Kernel {
  readonly info: KernelInfo;
  readonly closed: Promise<{ reason: string }>;
  readonly #process: KernelProcess;
  readonly #watchdog: Watchdog;
  readonly #beforeCell: KernelParts["beforeCell"];
  readonly #packages: KernelPackages | undefined;
  readonly #questions = new Map<number, (answer: unknown) => void>();
  readonly #listeners = new Map<number, ExecuteOptions["onLate"]>();
  #run: CellRun | undefined;
  #closedReason: string | undefined;
  #lastCell = 0;
  #lastQuestion = 0;

  constructor(parts: KernelParts) {
    this.info = parts.info;
    this.closed = parts.closed;
    this.#process = parts.process;
    this.#watchdog = parts.watchdog;
    this.#beforeCell = parts.beforeCell;
    if (parts.packages) {
      this.#packages = new KernelPackages({ ...parts.packages, ask: (question) => this.#ask(question) });
    }
  }

  get busy(): boolean {
    return this.#run !== undefined && !this.#run.ended;
  }

  async *execute(code: string, options: ExecuteOptions = {}): AsyncGenerator<ExecutionEvent, void> {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    if (this.busy) throw new CellwrightError("kernel_busy", "The kernel is running another cell.");
    const request = requestOf(code, options);
    this.#lastCell += 1;
    const cell = this.#lastCell;
    const run = new CellRun(cell, this.#process);
    this.#run = run;
    this.#listeners.set(cell, options.onLate);
    this.#listeners.delete(cell - LATE_CELLS);
    this.#watchdog.cellBegins();
    this.#process.send("execute", cell, request);
    yield* run.events();
  }

  async interrupt(): Promise<void> {
    if (this.#run && this.busy) this.#process.send("interrupt", this.#run.cell);
  }

  async inspect(query: Inspection): Promise<Variable[]> {
    const answer = await this.#ask(query);
    if (Array.isArray(answer)) return answer.filter(isVariable);
    const what = this.busy ? "a cell" : "something that an earlier cell left behind";
    throw new CellwrightError(
      "kernel_busy",
      `The kernel is running ${what}, and its variables cannot be seen meanwhile.`,
    );
  }

  async prepare(code: string, options: PrepareOptions): Promise<Preparation | undefined> {
    await this.#beforeCell?.();
    return this.#packages?.prepare(code, options);
  }

  async install(requirements: string[], options: InstallOptions): Promise<InstalledPackage[]> {
    if (!this.#packages) throw new CellwrightError("not_supported", "This kernel cannot install packages.");
    return this.#packages.install(requirements, options);
  }

  async dispose(): Promise<void> {
    this.#process.kill("The kernel was closed.");
    await this.closed;
  }

  /** Handles a report of the process; any type can arrive at any time. */
  receive(report: Report): void {
    const { type, id, value } = report;
    if (type === "stdout" || type === "stderr") this.#deliver(id, { type: "stream", name: type, text: value });
    else if (type === "event" || type === "done") this.#deliver(id, checkedEvent(value));
    else if (type === "answer") this.#questions.get(id)?.(value);
    else if (type === "pulse") this.#watchdog.heard(value);
    else if (type === "fatal") this.#process.kill(`Python ended itself, by os._exit or a crash: ${value}`);
    else if (type === "broken") this.#process.kill(`The kernel broke: ${value}`);
  }

  /** The process is gone: ends everything that waits for it. */
  close(reason: string): void {
    this.#closedReason = reason;
    this.#watchdog.stop();
    this.#run?.fail(died(reason));
    for (const answer of this.#questions.values()) answer(undefined);
  }

  #deliver(cell: number, event: ExecutionEvent | undefined): void {
    if (!event) return;
    if (this.#run && cell === this.#run.cell && !this.#run.ended) this.#run.push(event);
    else if (event.type !== "done") this.#listeners.get(cell)?.(event);
  }

  /** Undefined: timeout, which means that user code is running. */
  async #ask(question: object): Promise<unknown> {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    this.#lastQuestion += 1;
    const id = this.#lastQuestion;
    const answered = new Promise<unknown>((resolve) => this.#questions.set(id, resolve));
    const giveUp = () => this.#questions.get(id)?.(undefined);
    const timer = setTimeout(giveUp, this.busy ? BUSY_ANSWER_MS : IDLE_ANSWER_MS);
    this.#process.send("ask", id, question);
    try {
      const answer = await answered;
      if (answer === undefined && this.#closedReason !== undefined) throw died(this.#closedReason);
      return answer;
    } finally {
      clearTimeout(timer);
      this.#questions.delete(id);
    }
  }
}

function requestOf(code: string, options: ExecuteOptions): CellRequest {
  const variables: Record<string, unknown> = {};
  const bytes: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.variables ?? {})) {
    if (value instanceof Uint8Array) bytes[name] = Buffer.from(value).toString("base64");
    else variables[name] = value;
  }
  const { silent = false, script, value } = options;
  return { code, silent, variables, bytes, script, value };
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
