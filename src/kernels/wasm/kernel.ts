import { CellwrightError } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
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
import { isRecord, parseEvent } from "./events.ts";
import type { CellRequest, Report } from "./host/frames.ts";
import { KernelPackages, type KernelPackagesParts } from "./kernel-packages.ts";
import type { KernelProcess } from "./process.ts";
import type { Watchdog } from "./watchdog.ts";

/** From an execute leaving our process to the supervisor's word that it has it. Later, user code has stolen the line. */
const ACK_TIMEOUT_MS = 5_000;
/** How long a look at variables waits for a kernel that is busy, and for one that should not be. */
const BUSY_ANSWER_MS = 500;
const IDLE_ANSWER_MS = 5_000;
/** Cells whose late output is still delivered. */
const LATE_CELLS = 50;

export interface KernelParts {
  info: KernelInfo;
  process: KernelProcess;
  /** Resolves when the process is gone and its temporary files are removed. */
  closed: Promise<{ reason: string }>;
  watchdog: Watchdog;
  /** Done while no cell runs, each time before one does. */
  beforeCell?: (() => Promise<void>) | undefined;
  /** Where its packages come from; without it there are none. */
  packages?: Omit<KernelPackagesParts, "ask"> | undefined;
}

/** Our side of one Python in WebAssembly. */
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
  #acknowledge: (() => void) | undefined;
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
    void this.#sendCell(cell, request);
    yield* run.events();
  }

  async interrupt(): Promise<void> {
    if (this.#run && this.busy) void this.#process.send({ op: "interrupt", cell: this.#run.cell });
  }

  async inspect(query: Inspection): Promise<Variable[]> {
    const answer = await this.#ask(query);
    if (Array.isArray(answer)) return answer.filter(isVariable);
    throw new CellwrightError(
      "kernel_busy",
      "The kernel is running a cell, and its variables cannot be seen meanwhile.",
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

  /** Takes what the process reports; every kind of line can come at any time. */
  receive(report: Report): void {
    if (report.type === "stream") {
      this.#deliver(report.cell, parseEvent({ ...report, type: "stream" }));
    } else if (report.type === "event") {
      if (isRecord(report.event) && report.event.type === "fatal")
        this.#condemn(`Python ended itself, by os._exit or a crash: ${report.event.reason}`);
      else this.#deliver(report.cell, parseEvent(report.event));
    } else if (report.type === "ack") {
      if (report.cell === this.#run?.cell) this.#acknowledge?.();
    } else if (report.type === "answer") {
      this.#questions.get(report.id)?.(report.answer);
    } else if (report.type === "pulse") {
      this.#watchdog.heard(report);
    } else if (report.type === "broken") {
      this.#condemn(`The kernel broke: ${report.reason}`);
    }
  }

  /** The process is gone. Whoever waits for it is told. */
  close(reason: string): void {
    this.#closedReason = reason;
    this.#watchdog.stop();
    this.#acknowledge?.();
    this.#run?.fail(died(reason));
    for (const answer of this.#questions.values()) answer(undefined);
  }

  #deliver(cell: number, event: ExecutionEvent | undefined): void {
    if (!event) return;
    if (this.#run && cell === this.#run.cell && !this.#run.ended) this.#run.push(event);
    else if (event.type !== "done") this.#listeners.get(cell)?.(event);
  }

  async #sendCell(cell: number, request: CellRequest): Promise<void> {
    const acknowledged = new Promise<true>((resolve) => {
      this.#acknowledge = () => resolve(true);
    });
    await this.#process.send({ op: "execute", cell, request });
    if (await within(acknowledged, ACK_TIMEOUT_MS)) return;
    if (this.#run?.cell === cell && this.busy)
      this.#condemn("The kernel did not take the cell: user code reads its input.");
  }

  /** Undefined: no answer in time, which means that a cell is running. */
  async #ask(question: object): Promise<unknown> {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    this.#lastQuestion += 1;
    const id = this.#lastQuestion;
    const answered = new Promise<unknown>((resolve) => this.#questions.set(id, resolve));
    void this.#process.send({ op: "ask", id, question: JSON.stringify(question) });
    try {
      const answer = await within(answered, this.busy ? BUSY_ANSWER_MS : IDLE_ANSWER_MS);
      if (answer === undefined && this.#closedReason !== undefined) throw died(this.#closedReason);
      return answer;
    } finally {
      this.#questions.delete(id);
    }
  }

  #condemn(reason: string): void {
    this.#process.kill(reason);
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
  return { code, silent, variables: JSON.stringify(variables), bytes, script, value };
}

function died(reason: string): CellwrightError {
  return new CellwrightError("kernel_died", reason);
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function isVariable(value: unknown): value is Variable {
  return (
    isRecord(value) &&
    typeof value.name === "string" &&
    typeof value.type === "string" &&
    typeof value.summary === "string"
  );
}
