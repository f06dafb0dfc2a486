import type { ExecutionEvent } from "../../execution.ts";
import { CellEvents } from "../cell-events.ts";
import type { ExecuteOptions } from "../kernel.ts";
import { pageEvents } from "./events.ts";

export interface CellRunParts {
  /** The request's id; its answers name it as their parent. */
  id: string;
  options: Pick<ExecuteOptions, "silent" | "onInput">;
  /** Pauses or resumes the kernel's output: back-pressure. */
  hold: (held: boolean) => void;
}

/** One running cell. It is over when its reply and its idle status have arrived. */
export class CellRun extends CellEvents {
  readonly id: string;
  readonly options: CellRunParts["options"];
  /** An interrupt was requested: any error from now on counts as its result. */
  interrupted = false;
  /** Events that came from the kernel. */
  shown = 0;
  readonly #hold: CellRunParts["hold"];
  #reply: Record<string, unknown> | undefined;
  #isIdle = false;
  #hasFailed = false;

  constructor(parts: CellRunParts) {
    super();
    this.id = parts.id;
    this.options = parts.options;
    this.#hold = parts.hold;
  }

  show(event: ExecutionEvent): void {
    this.shown += 1;
    if (event.type === "error") this.#hasFailed = true;
    this.push(event.type === "error" && this.interrupted ? asInterrupt(event) : event);
  }

  /** The reply has arrived on the shell channel: the cell's own code has ended. */
  reply(content: Record<string, unknown>): void {
    this.#reply = content;
    this.#endWhenComplete();
  }

  /** The idle status has arrived on iopub: all of the cell's output has been received. */
  idle(): void {
    this.#isIdle = true;
    this.#endWhenComplete();
  }

  #endWhenComplete(): void {
    const reply = this.#reply;
    if (!reply || !this.#isIdle || this.ended) return;
    for (const event of pageEvents(reply)) this.push(event);
    const { status, execution_count: count } = reply;
    this.push({
      type: "done",
      status: status === "ok" && !this.#hasFailed ? "ok" : "error",
      executionCount: typeof count === "number" && !this.options.silent ? count : null,
    });
  }

  protected hold(held: boolean): void {
    this.#hold(held);
  }
}

/** An interrupted `await` ends in a CancelledError, IPython's `%%bash` in a TypeError. */
function asInterrupt(event: ExecutionEvent & { type: "error" }): ExecutionEvent {
  if (event.name === "KeyboardInterrupt") return event;
  const message = event.message ? `${event.name}: ${event.message}` : event.name;
  return { ...event, name: "KeyboardInterrupt", message };
}
