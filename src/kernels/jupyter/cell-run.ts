import type { ExecutionEvent } from "../../execution.ts";
import type { ExecuteOptions } from "../kernel.ts";
import { pageEvents } from "./events.ts";

/** Characters waiting for a slow reader before the kernel is held back, and when it may go on. */
const HIGH_WATER_CHARS = 4 * 1024 * 1024;
const LOW_WATER_CHARS = 1024 * 1024;

export interface CellRunParts {
  /** Of the request: what answers it names it as its parent. */
  id: string;
  options: Pick<ExecuteOptions, "silent" | "onInput">;
  /** Stops or resumes what the kernel shows. */
  hold: (held: boolean) => void;
}

/** The events of one cell between the channel that brings them and the caller that iterates over them. */
export class CellRun {
  readonly id: string;
  readonly options: CellRunParts["options"];
  /** We asked for its end: whatever it raises from now on is that. */
  interrupted = false;
  /** Events that came from the kernel. */
  shown = 0;
  readonly #hold: CellRunParts["hold"];
  #events: ExecutionEvent[] = [];
  #waitingChars = 0;
  #wake: (() => void) | undefined;
  #reply: Record<string, unknown> | undefined;
  #isIdle = false;
  #hasFailed = false;
  #ended = false;
  #failure: Error | undefined;
  #abandoned = false;

  constructor(parts: CellRunParts) {
    this.id = parts.id;
    this.options = parts.options;
    this.#hold = parts.hold;
  }

  get ended(): boolean {
    return this.#ended;
  }

  show(event: ExecutionEvent): void {
    this.shown += 1;
    if (event.type === "error") this.#hasFailed = true;
    this.#push(event.type === "error" && this.interrupted ? asInterrupt(event) : event);
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

  /** The kernel broke: the iteration ends by throwing, after the events that came before. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = error;
    this.#wake?.();
  }

  async *events(): AsyncGenerator<ExecutionEvent, void> {
    try {
      for (;;) {
        const events = this.#events.splice(0);
        for (const event of events) {
          yield event;
          this.#waitingChars -= charsOf(event);
          if (this.#waitingChars < LOW_WATER_CHARS) this.#hold(false);
        }
        if (this.#events.length > 0) continue;
        if (this.#failure) throw this.#failure;
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      // Whoever stopped listening must not hold the kernel back for ever.
      this.#abandoned = true;
      this.#events = [];
      this.#hold(false);
    }
  }

  #endWhenComplete(): void {
    const reply = this.#reply;
    if (!reply || !this.#isIdle || this.#ended) return;
    for (const event of pageEvents(reply)) this.#push(event);
    const { status, execution_count: count } = reply;
    this.#push({
      type: "done",
      status: status === "ok" && !this.#hasFailed ? "ok" : "error",
      executionCount: typeof count === "number" && !this.options.silent ? count : null,
    });
  }

  #push(event: ExecutionEvent): void {
    if (this.#ended) return;
    if (event.type === "done") this.#ended = true;
    if (this.#abandoned) return;
    this.#events.push(event);
    this.#waitingChars += charsOf(event);
    if (this.#waitingChars > HIGH_WATER_CHARS) this.#hold(true);
    this.#wake?.();
  }
}

/** An await that is interrupted ends in CancelledError, IPython's `%%bash` in a TypeError of its own making. */
function asInterrupt(event: ExecutionEvent & { type: "error" }): ExecutionEvent {
  if (event.name === "KeyboardInterrupt") return event;
  const message = event.message ? `${event.name}: ${event.message}` : event.name;
  return { ...event, name: "KeyboardInterrupt", message };
}

/** Near enough: what is in a bundle was bounded before it came here. */
function charsOf(event: ExecutionEvent): number {
  if (event.type === "stream") return event.text.length;
  if (event.type === "error")
    return event.message.length + event.traceback.reduce((sum, line) => sum + line.length, 100);
  if (!("data" in event)) return 100;
  return Object.values(event.data).reduce<number>(
    (sum, form) => sum + (typeof form === "string" ? form.length : 0) + 100,
    0,
  );
}
