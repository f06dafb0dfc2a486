import { heard, type JupyterChannel, type Listener } from "../protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../protocol/message.ts";
import { isIdle, type NewestCell } from "../protocol/newest-cell.ts";

/**
 * The channel to an orphaned kernel whose newest cell was started by a previous server process. After `release` it
 * delivers the cell's messages that are not in the journal, and makes up the reply, which went to that process.
 */
export class AdoptedChannel implements JupyterChannel {
  readonly closed: JupyterChannel["closed"];
  readonly #inner: JupyterChannel;
  readonly #session: string;
  #listener: Listener = () => {};
  /** Messages that arrived before `listen`. */
  #early: JupyterMessage[] = [];
  #cell: NewestCell | undefined;
  #replied = false;
  /** Messages of the cell, until `release` was called and the journal has been read. */
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
   * Resolves when the kernel's output arrives here, or the channel is closed. Uses the control channel, which answers
   * while a cell runs. Code that holds Python's lock delays the answer, but cannot print meanwhile.
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
   * Starts to deliver the rest of a cell; to be called before `listen`. `later`: if `attach` had not finished when `cell`
   * was read, the journal's messages of the cell, read again after `attach`: output in between was in neither.
   */
  async continue(cell: NewestCell, later?: Promise<JupyterMessage[]>): Promise<void> {
    this.#cell = cell;
    this.#held = [];
    this.#isBehind = later !== undefined;
    void later?.then((messages) => this.#catchUp(messages, cell));
    // Answered when the cell is over, even if nothing else reports its end.
    const question = createMessage("shell", "kernel_info_request", {}, { session: this.#session });
    this.#afterCell = question.header.msg_id;
    await this.#inner.send(question);
  }

  /** The cell's events are being read: delivers the held messages. */
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

  /** Makes up a missing reply before the idle status. */
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
