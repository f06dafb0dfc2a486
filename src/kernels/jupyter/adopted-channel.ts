import type { JupyterChannel } from "./channel.ts";
import { createMessage, type JupyterMessage } from "./message.ts";
import { isIdle, type NewestCell } from "./newest-cell.ts";

/**
 * The way to a kernel whose newest cell was begun by an earlier run of this program. Of that cell it passes on what the
 * journal does not have, once `release` is called, and its end in any case: the reply went to a server that is gone.
 */
export class AdoptedChannel implements JupyterChannel {
  readonly closed: JupyterChannel["closed"];
  readonly #inner: JupyterChannel;
  readonly #session: string;
  readonly #incoming: AsyncIterator<JupyterMessage>;
  #next: Promise<IteratorResult<JupyterMessage>> | undefined;
  /** Came before anybody read. */
  #early: JupyterMessage[] = [];
  #cell: NewestCell | undefined;
  #replied = false;
  /** Of the cell, until somebody waits for it. */
  #held: JupyterMessage[] = [];
  #release: () => void = () => {};
  #released: Promise<void> | undefined;
  #afterCell: string | undefined;

  constructor(inner: JupyterChannel, session: string) {
    this.#inner = inner;
    this.#session = session;
    this.closed = inner.closed;
    this.#incoming = inner.messages()[Symbol.asyncIterator]();
    if (inner.judgeBy)
      this.judgeBy = (judge) =>
        inner.judgeBy?.((id) => (this.#isOfCell(id) && !this.#cell?.over ? "asked" : judge(id)));
    if (inner.holdOutput) this.holdOutput = (held) => inner.holdOutput?.(held);
  }

  holdOutput?: (held: boolean) => void;
  judgeBy?: JupyterChannel["judgeBy"];

  send(message: JupyterMessage): Promise<void> {
    return this.#inner.send(message);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /**
   * Resolves when what the kernel shows reaches us. It is asked through the channel that answers while a cell runs; code
   * that does not let go of Python's lock is not waited for: nor does it show anything.
   */
  async attach(giveUp: AbortSignal): Promise<void> {
    const question = createMessage("control", "kernel_info_request", {}, { session: this.#session });
    await this.#inner.send(question);
    const given = new Promise<undefined>((resolve) => giveUp.addEventListener("abort", () => resolve(undefined)));
    while (!giveUp.aborted) {
      const next = await Promise.race([this.#take(), given]);
      if (!next || next.done) return;
      this.#next = undefined;
      if (next.value.parent.msg_id !== question.header.msg_id) this.#early.push(next.value);
      else if (isIdle(next.value)) return;
    }
  }

  /** What the journal told, to be called when `attach` has ended, before anything is read. */
  async continue(cell: NewestCell): Promise<void> {
    this.#cell = cell;
    this.#released = new Promise((resolve) => {
      this.#release = resolve;
    });
    // It is answered when the cell is over, whether or not anything else tells of that.
    const question = createMessage("shell", "kernel_info_request", {}, { session: this.#session });
    this.#afterCell = question.header.msg_id;
    await this.#inner.send(question);
  }

  /** Somebody waits for the cell now. */
  release(): void {
    this.#release();
  }

  async *messages(): AsyncGenerator<JupyterMessage> {
    for (const message of this.#early.splice(0)) yield* this.#news(message);
    for (;;) {
      const next = await Promise.race([this.#take(), ...(this.#released ? [this.#released] : [])]);
      if (!next) {
        this.#released = undefined;
        yield* this.#held.splice(0);
      } else if (next.done) return;
      else {
        this.#next = undefined;
        yield* this.#news(next.value);
      }
    }
  }

  /** The next message; the same one again until it has been taken off. */
  #take(): Promise<IteratorResult<JupyterMessage>> {
    this.#next ??= this.#incoming.next();
    return this.#next;
  }

  #news(message: JupyterMessage): JupyterMessage[] {
    const cell = this.#cell;
    const parent = message.parent.msg_id;
    if (!cell || !this.#isOfCell(parent)) return [message];
    if (cell.seen.has(message.header.msg_id)) return [];
    if (parent === cell.id) return this.#hold(this.#complete(message, cell));
    const isLost = isIdle(message) && !cell.over;
    return isLost ? this.#hold(this.#complete({ ...message, parent: { msg_id: cell.id } }, cell)) : [];
  }

  #isOfCell(parentId: string | undefined): boolean {
    return parentId !== undefined && (parentId === this.#cell?.id || parentId === this.#afterCell);
  }

  /** With the reply, if it has not come, before the end of what is shown. */
  #complete(message: JupyterMessage, cell: NewestCell): JupyterMessage[] {
    const { channel, header, parent } = message;
    cell.failed ||= header.msg_type === "error";
    if (channel === "shell") {
      const isFirst = !this.#replied;
      this.#replied = true;
      return isFirst ? [message] : [];
    }
    if (!isIdle(message)) return [message];
    cell.over = true;
    if (this.#replied) return [message];
    this.#replied = true;
    const content = { status: cell.failed ? "error" : "ok", execution_count: cell.executionCount };
    return [createMessage("shell", "execute_reply", content, { session: this.#session, parent }), message];
  }

  #hold(messages: JupyterMessage[]): JupyterMessage[] {
    if (!this.#released) return messages;
    this.#held.push(...messages);
    return [];
  }
}
