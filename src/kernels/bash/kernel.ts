import { writeFile } from "node:fs/promises";
import { CellwrightError } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
import { signalName } from "../../process/signal-name.ts";
import type { ExecuteOptions, Kernel, KernelInfo } from "../kernel.ts";
import { cellLines, endLine, type Report } from "../shell/driver.ts";
import { assignments, obstacleTo } from "../shell/variables.ts";
import { Cell } from "./cell.ts";
import type { OutputPipes } from "./output-pipes.ts";
import type { ShellProcess } from "./process.ts";

/**
 * Interval at which the end of an interrupted cell is requested again: the signal may have hit our own line. Every
 * second request sends another signal, for programs that catch the first one.
 */
const ASK_AGAIN_MS = 250;
const MAX_ASKS = 40;

export interface BashKernelParts {
  info: KernelInfo;
  process: ShellProcess;
  /** Ancestor of all the shell's processes. */
  pid: number | undefined;
  pipes: OutputPipes;
  /** Resolves when the shell, its descendants and its files are gone. */
  closed: Promise<{ reason: string }>;
  /** Where cells are written for the shell to read. */
  files: { cell: string; variables: string };
  /** The same file as the shell sees it. */
  seen: (path: string) => string;
}

/** Our side of one persistent shell. */
export class BashKernel implements Kernel {
  readonly info: KernelInfo;
  readonly closed: Promise<{ reason: string }>;
  readonly pid: number | undefined;
  readonly #parts: BashKernelParts;
  #cell: Cell | undefined;
  #closedReason: string | undefined;
  #cells = 0;
  #executionCount = 0;
  /** The value of `$?` for the next cell. */
  #lastStatus = 0;
  #asking: NodeJS.Timeout | undefined;

  constructor(parts: BashKernelParts) {
    this.info = parts.info;
    this.closed = parts.closed;
    this.pid = parts.pid;
    this.#parts = parts;
  }

  async *execute(code: string, options: ExecuteOptions = {}): AsyncGenerator<ExecutionEvent, void> {
    if (this.#closedReason !== undefined) throw died(this.#closedReason);
    if (this.busy) throw new CellwrightError("kernel_busy", "The shell is running another cell.");
    this.#cells += 1;
    const cell = new Cell(this.#cells, options);
    this.#cell = cell;
    void this.#begin(cell, code);
    yield* cell.events();
  }

  async interrupt(): Promise<void> {
    const cell = this.#cell;
    if (!cell || cell.ended || cell.interruptWanted) return;
    cell.interruptWanted = true;
    if (cell.begun) this.#sendInterrupt(cell);
  }

  async dispose(): Promise<void> {
    this.end("The shell was closed.");
    await this.closed;
  }

  get busy(): boolean {
    return this.#cell !== undefined && !this.#cell.ended;
  }

  /** Kills the shell and its descendants. */
  end(reason: string): void {
    this.#parts.process.kill(reason);
  }

  /** Handles the shell's reports. */
  receive(report: Report): void {
    const cell = this.#cell;
    if (!cell || cell.ended) return;
    if (report.type === "begin" && report.cell === cell.number) {
      cell.begun = true;
      if (cell.interruptWanted) this.#sendInterrupt(cell);
    } else if (report.type === "end" && report.token === cell.token) {
      cell.status ??= report.status;
      if (cell.interruptSent) this.#settle(cell);
      else this.#finish(cell, cell.status);
    }
  }

  /** The shell has ended; its last output is still in the pipes. */
  close(reason: string): void {
    this.#closedReason = reason;
    clearInterval(this.#asking);
    const cell = this.#cell;
    if (!cell || cell.ended) return;
    cell.pipes?.finish();
    cell.fail(died(reason));
  }

  async #begin(cell: Cell, code: string): Promise<void> {
    const { pipes, files, seen, process } = this.#parts;
    const { variables } = cell.options;
    const obstacle = obstacleTo(code, variables);
    if (obstacle) return this.#refuse(cell, "InvalidCell", obstacle);
    try {
      await writeFile(files.cell, code);
      if (variables) await writeFile(files.variables, assignments(variables));
      cell.pipes = await pipes.open((name, text) => cell.text(name, text));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return this.#refuse(cell, "CellNotRun", `The cell could not be passed to the shell: ${message}`);
    }
    if (cell.ended) return cell.pipes.destroy();
    const { stdout, stderr } = cell.pipes.paths;
    const paths = { cell: seen(files.cell), stdout: seen(stdout), stderr: seen(stderr) };
    process.write(
      cellLines(
        { ...paths, variables: variables && seen(files.variables) },
        { number: String(cell.number), token: cell.token, status: String(this.#lastStatus) },
      ),
    );
  }

  #sendInterrupt(cell: Cell): void {
    if (cell.interruptSent) return;
    cell.interruptSent = true;
    this.#parts.process.interrupt();
    let asks = 0;
    this.#asking = setInterval(() => {
      asks += 1;
      if (asks % 2 === 0 && cell.status === undefined) this.#parts.process.interrupt();
      this.#parts.process.write(endLine(cell.token));
      if (asks === MAX_ASKS) clearInterval(this.#asking);
    }, ASK_AGAIN_MS);
  }

  /** A signal may arrive after the cell's end. Once the shell answers again, no signal is pending. */
  #settle(cell: Cell): void {
    cell.interruptSent = false;
    cell.renewToken();
    this.#parts.process.write(endLine(cell.token));
  }

  #finish(cell: Cell, status: number): void {
    clearInterval(this.#asking);
    cell.pipes?.finish();
    if (!cell.options.silent) this.#lastStatus = status;
    const failed = !cell.begun || status !== 0;
    if (failed) cell.push(failureOf(cell, status));
    this.#done(cell, failed);
    cell.pipes?.leave((name, text) => cell.options.onLate?.({ type: "stream", name, text }));
  }

  #refuse(cell: Cell, name: string, message: string): void {
    cell.push(errorEvent(name, message));
    this.#done(cell, true);
  }

  #done(cell: Cell, failed: boolean): void {
    if (!cell.options.silent) this.#executionCount += 1;
    const executionCount = cell.options.silent ? null : this.#executionCount;
    cell.push({ type: "done", status: failed ? "error" : "ok", executionCount });
  }
}

/** The error of a cell whose exit code is not 0. */
function failureOf(cell: Cell, status: number): ExecutionEvent {
  if (cell.interruptWanted) return errorEvent("Interrupted", "the cell was interrupted");
  if (!cell.begun) return errorEvent("CellNotRun", "a signal reached the shell before the cell began");
  const signal = signalName(status - 128);
  return errorEvent("ExitCode", signal ? `exit code ${status} (${signal})` : `exit code ${status}`);
}

function errorEvent(name: string, message: string): ExecutionEvent {
  return { type: "error", name, message, traceback: [] };
}

function died(reason: string): CellwrightError {
  return new CellwrightError("kernel_died", reason);
}
