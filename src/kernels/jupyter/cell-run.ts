import type { ExecutionEvent } from "../../execution.ts";
import { CellEvents } from "../cell-events.ts";
import type { ExecuteOptions } from "../kernel.ts";
import { pageEvents } from "./events.ts";

export interface CellRunParts {
  /** Of the request: what answers it names it as its parent. */
  id: string;
  options: Pick<ExecuteOptions, "silent" | "onInput">;
  /** Stops or resumes what the kernel shows. */
  hold: (held: boolean) => void;
}

/** One cell on its way through the channel. It is over when the kernel has answered on both of its ways. */
export class CellRun extends CellEvents {
  readonly id: string;
  readonly options: CellRunParts["options"];
  /** We asked for its end: whatever it raises from now on is that. */
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

  /** The kernel has answered the request: nothing of the cell's own code runs any more. */
  reply(content: Record<string, unknown>): void {
    this.#reply = content;
    this.#endWhenComplete();
  }

  /** The kernel has said on the other channel that it is done: nothing shown by the cell is still on its way. */
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

/** An await that is interrupted ends in CancelledError, IPython's `%%bash` in a TypeError of its own making. */
function asInterrupt(event: ExecutionEvent & { type: "error" }): ExecutionEvent {
  if (event.name === "KeyboardInterrupt") return event;
  const message = event.message ? `${event.name}: ${event.message}` : event.name;
  return { ...event, name: "KeyboardInterrupt", message };
}
