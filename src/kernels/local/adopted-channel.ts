import { heard, type JupyterChannel, type Listener } from "../protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../protocol/message.ts";
import { isIdle, type NewestCell } from "../protocol/newest-cell.ts";

/**
 * The way to a kernel whose newest cell was begun by an earlier run of this program. Of that cell it passes on what the
 * journal does not have, once `release` is called, and its end in any case: the reply went to a server that is gone.
 */
export class AdoptedChannel implements JupyterChannel {
  readonly closed: JupyterChannel["closed"];
  readonly #inner: JupyterChannel;
  readonly #session: string;
  #listener: Listener = () => {};
  /** Messages that arrived before the kernel listened. */
  #early: JupyterMessage[] = [];
  #cell: NewestCell | undefined;
  #replied = false;
  /** Messages of the cell, until it has a waiter and the journal has been read. */
  #held: JupyterMessage[] | undefined;
  #isReleased = false;
  #isBehind = false;
  #afterCell: string | undefined;

  constructor(inner: JupyterChannel, session: string) {
    this.#inner = inner;
    this.#session = session;
    this.closed = inner.closed;
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
   * Resolves when the kernel's output reaches us, or the channel is closed. The kernel is asked through the channel that
   * answers while a cell runs; code that holds Python's lock delays the answer, and shows nothing meanwhile.
   */
  async attach(): Promise<void> {
    const question = createMessage("control", "kernel_info_request", {}, { session: this.#session });
    const attached = heard(this.#inner, new AbortController().signal, (message) => {
      if (message.parent.msg_id === question.header.msg_id) return isIdle(message) || undefined;
      this.#early.push(message);
      return undefined;
    });
    await this.#inner.send(question);
    await attached.catch(() => {});
  }

  /**
   * Begins to pass on the rest of a cell, to be called before the kernel listens. `later`: the journal's messages of the
   * cell once more, read after `attach` has ended, if that had not ended when `cell` was read: the output in between
   * reached neither.
   */
  async continue(cell: NewestCell, later?: Promise<JupyterMessage[]>): Promise<void> {
    this.#cell = cell;
    this.#held = [];
    this.#isBehind = later !== undefined;
    void later?.then((messages) => this.#catchUp(messages, cell));
    // It is answered when the cell is over, whether or not anything else tells of that.
    const question = createMessage("shell", "kernel_info_request", {}, { session: this.#session });
    this.#afterCell = question.header.msg_id;
    await this.#inner.send(question);
  }

  /** The cell has a waiter now. */
  release(): void {
    this.#isReleased = true;
    this.#flush();
  }

  #catchUp(messages: JupyterMessage[], cell: NewestCell): void {
    const missed = messages.filter(({ header }) => !cell.seen.has(header.msg_id));
    const ids = new Set(missed.map(({ header }) => header.msg_id));
    this.#held = [...missed, ...(this.#held ?? []).filter(({ header }) => !ids.has(header.msg_id))];
    this.#isBehind = false;
    this.#flush();
  }

  #flush(): void {
    if (!this.#isReleased || this.#isBehind) return;
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const message of held) this.#take(message);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    this.#inner.listen((message) => this.#take(message));
    for (const message of this.#early.splice(0)) this.#take(message);
  }

  #take(message: JupyterMessage): void {
    const cell = this.#cell;
    const parent = message.parent.msg_id;
    if (!cell || !this.#isOfCell(parent)) this.#listener(message);
    else if (this.#held) this.#held.push(message);
    else if (cell.seen.has(message.header.msg_id)) return;
    else if (parent === cell.id) this.#pass(message, cell);
    else if (isIdle(message) && !cell.over) this.#pass({ ...message, parent: { msg_id: cell.id } }, cell);
  }

  #isOfCell(parentId: string | undefined): boolean {
    return parentId !== undefined && (parentId === this.#cell?.id || parentId === this.#afterCell);
  }

  /** With the reply, if it has not come, before the end of the output. */
  #pass(message: JupyterMessage, cell: NewestCell): void {
    const { channel, header, parent } = message;
    cell.failed ||= header.msg_type === "error";
    const isEnd = isIdle(message);
    if (isEnd) cell.over = true;
    if (isEnd && !this.#replied) {
      this.#replied = true;
      const content = { status: cell.failed ? "error" : "ok", execution_count: cell.executionCount };
      this.#listener(createMessage("shell", "execute_reply", content, { session: this.#session, parent }));
    }
    if (channel === "shell") {
      if (this.#replied) return;
      this.#replied = true;
    }
    this.#listener(message);
  }
}
