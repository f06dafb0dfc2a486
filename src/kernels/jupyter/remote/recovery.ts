import type { JupyterChannel } from "../channel.ts";
import { isRecord } from "../events.ts";
import { createMessage, type JupyterMessage } from "../message.ts";
import { MessageQueue } from "../message-queue.ts";
import { isIdle } from "../newest-cell.ts";
import { messagesOf, type NewestTold } from "./ledger.ts";
import { lossOf, REPLACED } from "./loss.ts";
import { isRateNotice, OUTPUT_DROPPED } from "./rate.ts";

/** A channel that loses what is under way when its connection breaks, and says when it has another. */
export interface BreakingChannel extends JupyterChannel {
  readonly isConnected: boolean;
  onReconnect(listener: () => void): void;
  /** Gives up the connection that there is, and makes another. */
  reconnect(): void;
}

/** The cell that was sent last. */
interface Cell {
  id: string;
  /** What began it; absent when an earlier run of the program sent it. */
  request?: JupyterMessage;
  /** Sent after it, and needed by it: an interrupt, what was typed. */
  further: JupyterMessage[];
  seen: Set<string>;
  isReplied: boolean;
  isIdle: boolean;
  isRateTold: boolean;
}

/** Questions that are not answered yet. */
interface Asked {
  question: string;
  probe: string;
  at: number;
  heard: (content: Record<string, unknown>) => void;
}

/** After so long a silence the kernel is asked again: the question may be lost, or the kernel is in native code. */
const ANSWER_MS = 3_000;

/**
 * A server can keep a connection open and pass on nothing of the kernel's, or no output: one that was made and broken
 * while the server was still joining it to the kernel takes the next one's streams along. So many questions without an
 * answer, or no sign of output for so long after an answer: then another connection is made.
 */
const UNANSWERED = 3;
const MUTE_MS = 3_000;

/** A line may be slow for so long; then what it brought is shown, answered or not. */
const SLOW_MS = 60_000;

const LATE_NOTE = "<Some of the output is lost: the connection to the Jupyter server broke.>\n";

/**
 * The way to a kernel of ours (host/live.py) through connections that break. After each it asks the kernel's ledger what
 * became of the cell, passes on what was missed, and sends again what never arrived: the kernel runs no request twice.
 */
export class RecoveringChannel implements JupyterChannel {
  readonly closed: Promise<{ reason: string }>;
  readonly #socket: BreakingChannel;
  readonly #session: string;
  readonly #queue = new MessageQueue();
  #tellClosed: (closed: { reason: string }) => void = () => {};
  #isClosed = false;
  #cell: Cell | undefined;
  /** Of the cell, while the kernel is being asked: what was missed comes before it. */
  #held: JupyterMessage[] | undefined;
  #asked: Asked | undefined;
  #keepsAll = false;
  #isRecovering = false;
  #early: JupyterMessage | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The newest questions, while nothing of what the kernel publishes about them has come. */
  #unheard: string[] = [];
  #unanswered = 0;
  #muteTimer: NodeJS.Timeout | undefined;
  #isHeld = false;

  constructor(socket: BreakingChannel, session: string) {
    this.#socket = socket;
    this.#session = session;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    socket.onReconnect(() => this.#recover());
    void socket.closed.then(({ reason }) => this.#end(reason));
    void this.#read();
  }

  async send(message: JupyterMessage): Promise<void> {
    const type = message.header.msg_type;
    if (type === "execute_request") {
      this.#begin(message);
      // Until it is known that the kernel is still the same one, no code goes there.
      if (!this.#socket.isConnected || this.#isRecovering) return;
    } else if (type === "cellwright_interrupt") {
      // It may come before its cell does.
      if (message.content.cell === this.#cell?.id) this.#cell?.further.push(message);
      else this.#early = message;
    } else if (type === "input_reply") this.#cell?.further.push(message);
    await this.#socket.send(message);
  }

  holdOutput(held: boolean): void {
    this.#isHeld = held;
    this.#socket.holdOutput?.(held);
  }

  messages(): AsyncIterable<JupyterMessage> {
    return this.#queue.read();
  }

  async close(): Promise<void> {
    this.#end("The connection to the kernel was closed.");
  }

  /**
   * What the kernel knows of its newest cell, for a program that was not there; undefined when it does not say. To be
   * called before anything is read or sent. From then on all is kept until `release`.
   */
  async newest(giveUp: AbortSignal): Promise<NewestTold | undefined> {
    this.#keepsAll = true;
    this.#held = [];
    const messages: JupyterMessage[] = [];
    for (let skip = 0; !giveUp.aborted; ) {
      const told = await this.#answer({ skip }, giveUp);
      if (told?.state !== "newest") return undefined;
      const more = messagesOf(told);
      messages.push(...more);
      if (told.more !== true) return { ...told, messages } as NewestTold;
      skip = Math.max(skip, Number(told.dropped)) + more.length;
    }
    return undefined;
  }

  /** Goes on with what was kept. `cell` is one that an earlier run of the program began, and what is known of it. */
  release(cell?: { id: string; seen: Set<string> }): void {
    if (!this.#keepsAll) return;
    this.#keepsAll = false;
    if (cell) this.#cell = { ...cellOf(cell.id), seen: cell.seen };
    this.#release();
  }

  #begin(request: JupyterMessage): void {
    // Whoever goes on to another cell does not wait for the one that was found.
    this.release();
    const { msg_id: id } = request.header;
    this.#cell = cellOf(id, request);
    if (this.#early?.content.cell === id) this.#cell.further.push(this.#early);
    this.#early = undefined;
  }

  async #read(): Promise<void> {
    for await (const message of this.#socket.messages()) this.#take(message);
  }

  #take(message: JupyterMessage): void {
    // A line that is slow is not silent: the answer is behind what comes now.
    if (this.#asked && performance.now() - this.#asked.at < SLOW_MS) this.#timer?.refresh();
    const parent = message.parent.msg_id;
    if (message.channel === "iopub" && parent !== undefined && this.#unheard.includes(parent)) this.#unheard = [];
    const loss = lossOf(message);
    if (loss !== undefined) this.#lose(loss);
    else if (parent !== undefined && parent === this.#asked?.question) this.#hear(message);
    else if (parent !== undefined && parent === this.#asked?.probe) this.#hearProbe(message);
    else if (this.#keepsAll) this.#held?.push(message);
    else if (parent === undefined || parent !== this.#cell?.id) this.#queue.push(message);
    else if (this.#held) this.#held.push(message);
    else this.#pass(message, this.#cell);
  }

  /** To whoever waits for the cell, once. */
  #pass(message: JupyterMessage, cell: Cell): void {
    if (message.header.msg_type === "execute_reply") {
      if (cell.isReplied) return;
      cell.isReplied = true;
    } else {
      if (cell.seen.has(message.header.msg_id)) return;
      cell.seen.add(message.header.msg_id);
      if (isIdle(message)) cell.isIdle = true;
    }
    if (!isRateNotice(message)) this.#queue.push(message);
    else if (!cell.isRateTold) {
      cell.isRateTold = true;
      this.#queue.push({ ...message, content: { name: "stderr", text: OUTPUT_DROPPED } });
    }
  }

  #recover(): void {
    // Whoever asks for the newest cell asks by himself.
    if (this.#keepsAll) return;
    this.#isRecovering = true;
    if (this.#cell && !isOver(this.#cell)) this.#held ??= [];
    this.#ask(0);
  }

  #ask(skip: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const cell = this.#running;
    this.#question({ cell: cell?.id, skip }, (told) => {
      clearTimeout(this.#timer);
      this.#unanswered = 0;
      this.#expectOutput();
      // Another cell came meanwhile: it is asked for as well, though it cannot have begun.
      if (cell !== this.#running) return this.#ask(0);
      if (cell) return this.#catchUp(cell, told, skip);
      this.#isRecovering = false;
      this.#release();
    });
    this.#timer = setTimeout(() => {
      this.#showHeld();
      this.#unanswered += 1;
      if (this.#unanswered % UNANSWERED === 0 && !this.#isHeld) this.#socket.reconnect();
      else this.#ask(0);
    }, ANSWER_MS);
    this.#timer.unref();
  }

  /** The kernel publishes when it begins and ends to answer: that comes the way that output comes. */
  #expectOutput(): void {
    clearTimeout(this.#muteTimer);
    this.#muteTimer = setTimeout(() => {
      if (this.#unheard.length > 0 && !this.#isHeld && !this.#isClosed) this.#socket.reconnect();
    }, MUTE_MS);
    this.#muteTimer.unref();
  }

  /** Of a kernel that is not ours any more, because the server has replaced it, only the second question is answered. */
  #question(ledger: { cell?: string | undefined; skip: number }, heard: Asked["heard"]): void {
    const about = { session: this.#session };
    const question = createMessage("control", "cellwright_request", { ledger }, about);
    const probe = createMessage("control", "kernel_info_request", {}, about);
    this.#asked = { question: question.header.msg_id, probe: probe.header.msg_id, at: performance.now(), heard };
    this.#unheard = [question.header.msg_id, probe.header.msg_id];
    void this.#socket.send(question);
    void this.#socket.send(probe);
  }

  async #answer(ledger: { skip: number }, giveUp: AbortSignal): Promise<Record<string, unknown> | undefined> {
    const gone = this.closed.then(() => undefined);
    const late = new Promise<undefined>((resolve) => giveUp.addEventListener("abort", () => resolve(undefined)));
    return Promise.race([
      new Promise<Record<string, unknown>>((resolve) => this.#question(ledger, resolve)),
      gone,
      late,
    ]);
  }

  #hear({ header, content }: JupyterMessage): void {
    if (header.msg_type !== "cellwright_reply") return;
    const asked = this.#asked;
    this.#asked = undefined;
    asked?.heard(content);
  }

  #hearProbe({ header }: JupyterMessage): void {
    if (header.msg_type === "kernel_info_reply") this.#end(REPLACED);
  }

  get #running(): Cell | undefined {
    return this.#cell && !isOver(this.#cell) ? this.#cell : undefined;
  }

  #catchUp(cell: Cell, told: Record<string, unknown>, skip: number): void {
    if (told.state === "unknown") {
      this.#isRecovering = false;
      this.#release();
      if (cell.request) void this.#socket.send(cell.request);
    } else {
      const messages = messagesOf(told);
      const dropped = typeof told.dropped === "number" ? told.dropped : 0;
      if (skip < dropped && cell.seen.size < dropped) this.#note(cell, LATE_NOTE);
      for (const message of messages) {
        const loss = lossOf(message);
        if (loss === undefined) this.#pass(message, cell);
        else this.#lose(loss);
      }
      if (told.more === true) {
        this.#ask(Math.max(skip, dropped) + messages.length);
        return;
      }
      this.#isRecovering = false;
      if (isRecord(told.reply) || told.state === "over") this.#finish(cell, told);
      this.#release();
    }
    for (const message of isOver(cell) ? [] : cell.further) void this.#socket.send(message);
  }

  #finish(cell: Cell, told: Record<string, unknown>): void {
    const parent = { msg_id: cell.id };
    const about = { session: this.#session, parent };
    // One that another request has followed: how it went is not known any more.
    const isForgotten = told.state === "over";
    if (isForgotten) this.#note(cell, LATE_NOTE);
    const reply = isRecord(told.reply) ? told.reply : { status: "ok" };
    this.#pass(createMessage("shell", "execute_reply", reply, about), cell);
    if (isForgotten) this.#pass(createMessage("iopub", "status", { execution_state: "idle" }, about), cell);
  }

  #note(cell: Cell, text: string): void {
    const about = { session: this.#session, parent: { msg_id: cell.id } };
    this.#queue.push(createMessage("iopub", "stream", { name: "stderr", text }, about));
  }

  /** What is held came before. */
  #lose(reason: string): void {
    this.#keepsAll = false;
    this.#release();
    this.#end(reason);
  }

  /** What is here is not kept from anybody by a kernel that cannot answer now; what comes next waits for it again. */
  #showHeld(): void {
    const cell = this.#running;
    if (!cell || !this.#held) return;
    if (this.#held.some(({ header }) => header.msg_type === "execute_reply")) this.#note(cell, LATE_NOTE);
    this.#release();
    this.#held = [];
  }

  #release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const message of held) this.#take(message);
  }

  #end(reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#keepsAll = false;
    clearTimeout(this.#timer);
    clearTimeout(this.#muteTimer);
    this.#release();
    this.#queue.end();
    this.#tellClosed({ reason });
    void this.#socket.close();
  }
}

function cellOf(id: string, request?: JupyterMessage): Cell {
  return { id, request, further: [], seen: new Set(), isReplied: false, isIdle: false, isRateTold: false };
}

function isOver(cell: Cell): boolean {
  return cell.isReplied && cell.isIdle;
}
