import { isRecord } from "../checked-event.ts";
import type { JupyterChannel, Listener } from "../protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../protocol/message.ts";
import { isIdle } from "../protocol/newest-cell.ts";
import { deferred } from "../starting.ts";
import { messagesOf, type NewestCell } from "./ledger.ts";
import { lossOf, REPLACED } from "./loss.ts";
import { isRateNotice, OUTPUT_DROPPED } from "./server/rate.ts";

/** A channel that loses messages in flight when its connection breaks, and reports when it has reconnected. */
export interface BreakingChannel extends JupyterChannel {
  readonly isConnected: boolean;
  onReconnect(listener: () => void): void;
  /** Drops the current connection and makes another, which shares nothing with it on the server. */
  reconnect(): void;
}

/** The newest cell. */
interface Cell {
  id: string;
  /** Absent if an earlier process sent it. */
  request?: JupyterMessage;
  /** Later messages that belong to it: an interrupt, typed input. */
  further: JupyterMessage[];
  seen: Set<string>;
  isReplied: boolean;
  isIdle: boolean;
  isRateReported: boolean;
}

/** A question without an answer yet. */
interface Asked {
  question: string;
  probe: string;
  at: number;
  heard: (content: Record<string, unknown>) => void;
}

/** Interval of repeated questions: a question may be lost, or the kernel is in native code. */
const ANSWER_MS = 3_000;

/**
 * A server can keep a connection open and forward nothing to or of the kernel, or no output: a connection that broke
 * while the server was still attaching it to the kernel takes the next one's streams along. After this many unanswered
 * questions, or this long without a sign of output after an answer, another connection is made.
 */
const UNANSWERED = 3;
const MUTE_MS = 3_000;
/** Each further connection gets twice the time, up to this factor: a server that is merely slow must get to answer. */
const MAX_PATIENCE = 16;

/**
 * A server can stop forwarding after its first answer, too: it closes the broken connection's streams late. So a cell on
 * a channel that ever broke is checked at this interval, without asking for its output again.
 */
const CHECK_MS = 10_000;
const NO_MESSAGES = Number.MAX_SAFE_INTEGER;

/**
 * Held messages wait this long for the kernel's answer, which says what comes before them; then they are shown without
 * it, perhaps too early. For kernels in native code: others answer within moments, or seconds on a busy machine.
 */
const SLOW_MS = 60_000;

const LATE_NOTE = "<Some of the output is lost: the connection to the Jupyter server broke.>\n";

/**
 * A channel to a kernel that runs python/kernel/attach.py, over connections that break. After each reconnect it asks
 * the kernel's ledger about the cell, delivers the missed messages, and resends requests that never arrived: the kernel
 * runs no request twice.
 */
export class RecoveringChannel implements JupyterChannel {
  readonly #closing = deferred<{ reason: string }>();
  readonly closed = this.#closing.promise;
  readonly #socket: BreakingChannel;
  readonly #session: string;
  #listener: Listener = () => {};
  #isClosed = false;
  #cell: Cell | undefined;
  /** The cell's messages while the ledger is being asked: the missed ones come first. */
  #held: JupyterMessage[] | undefined;
  #asked: Asked | undefined;
  #keepsAll = false;
  #hasBroken = false;
  #isRecovering = false;
  /** The reconnect or the newest answer. */
  #unansweredSince = 0;
  #early: JupyterMessage | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Ids of the newest questions, until iopub messages about them arrive. */
  #unheard: string[] = [];
  #unanswered = 0;
  #patience = 1;
  #muteTimer: NodeJS.Timeout | undefined;
  #isHeld = false;
  #settling: (() => void)[] = [];

  constructor(socket: BreakingChannel, session: string) {
    this.#socket = socket;
    this.#session = session;
    socket.onReconnect(() => this.#recover());
    void socket.closed.then(({ reason }) => this.#end(reason));
    socket.listen((message) => this.#take(message));
  }

  async send(message: JupyterMessage): Promise<void> {
    const type = message.header.msg_type;
    if (type === "execute_request") {
      this.#begin(message);
      // Code is sent only once it is known that the kernel is still the same.
      if (!this.#socket.isConnected || this.#isRecovering) return;
    } else if (type === "cellwright_interrupt") {
      // An interrupt may precede its cell.
      if (message.content.cell === this.#cell?.id) this.#cell?.further.push(message);
      else this.#early = message;
    } else if (type === "input_reply") this.#cell?.further.push(message);
    await this.#socket.send(message);
  }

  holdOutput(held: boolean): void {
    this.#isHeld = held;
    this.#socket.holdOutput?.(held);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  async settled(): Promise<boolean> {
    const isKnown = this.#isClosed || (this.#socket.isConnected && !this.#isRecovering);
    if (!isKnown) await new Promise<void>((resolve) => this.#settling.push(resolve));
    return !this.#isClosed;
  }

  async close(): Promise<void> {
    this.#end("The connection to the kernel was closed.");
  }

  /**
   * The kernel's newest cell, for a process that did not send it; undefined if the kernel does not answer. To be called
   * before anything is read or sent. From then on all messages are held until `release`.
   */
  async newest(giveUp: AbortSignal): Promise<NewestCell | undefined> {
    this.#keepsAll = true;
    this.#held = [];
    const messages: JupyterMessage[] = [];
    for (let skip = 0; !giveUp.aborted; ) {
      const answer = await this.#answer({ skip }, giveUp);
      if (answer?.state !== "newest") return undefined;
      const more = messagesOf(answer);
      messages.push(...more);
      if (answer.more !== true) return { ...answer, messages } as NewestCell;
      skip = Math.max(skip, Number(answer.dropped)) + more.length;
    }
    return undefined;
  }

  /** Delivers held messages. `cell` was started by an earlier process, with the messages of it that are known. */
  release(cell?: { id: string; seen: Set<string> }): void {
    if (!this.#keepsAll) return;
    this.#keepsAll = false;
    if (cell) this.#cell = { ...cellOf(cell.id), seen: cell.seen };
    this.#release();
  }

  #begin(request: JupyterMessage): void {
    // A caller that starts another cell does not wait for the adopted one.
    this.release();
    const { msg_id: id } = request.header;
    this.#cell = cellOf(id, request);
    if (this.#early?.content.cell === id) this.#cell.further.push(this.#early);
    this.#early = undefined;
    if (!this.#isRecovering) this.#watch();
  }

  #take(message: JupyterMessage): void {
    // A slow connection is not silent: the answer comes after what arrives now.
    if (this.#asked && performance.now() - this.#asked.at < SLOW_MS) this.#timer?.refresh();
    const parent = message.parent.msg_id;
    if (message.channel === "iopub" && parent !== undefined && this.#unheard.includes(parent)) {
      this.#unheard = [];
      this.#patience = 1;
    }
    const loss = lossOf(message);
    if (loss !== undefined) this.#lose(loss);
    else if (parent !== undefined && parent === this.#asked?.question) this.#hear(message);
    else if (parent !== undefined && parent === this.#asked?.probe) this.#hearProbe(message);
    else if (this.#keepsAll) this.#held?.push(message);
    else if (parent === undefined || parent !== this.#cell?.id) this.#listener(message);
    else if (this.#held) this.#held.push(message);
    else this.#pass(message, this.#cell);
  }

  /** Delivers each message of the cell once. */
  #pass(message: JupyterMessage, cell: Cell): void {
    if (message.header.msg_type === "execute_reply") {
      if (cell.isReplied) return;
      cell.isReplied = true;
    } else {
      if (cell.seen.has(message.header.msg_id)) return;
      cell.seen.add(message.header.msg_id);
      if (isIdle(message)) cell.isIdle = true;
    }
    if (!isRateNotice(message)) this.#listener(message);
    else if (!cell.isRateReported) {
      cell.isRateReported = true;
      this.#listener({ ...message, content: { name: "stderr", text: OUTPUT_DROPPED } });
    }
  }

  #recover(): void {
    this.#hasBroken = true;
    // `newest` asks the ledger itself.
    if (this.#keepsAll) {
      this.#settle();
      return;
    }
    if (!this.#isRecovering) this.#unansweredSince = performance.now();
    this.#isRecovering = true;
    if (this.#cell && !isOver(this.#cell)) this.#held ??= [];
    this.#ask(0);
  }

  #ask(skip: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const cell = this.#running;
    this.#question({ cell: cell?.id, skip }, (answer) => {
      clearTimeout(this.#timer);
      this.#unanswered = 0;
      this.#unansweredSince = performance.now();
      this.#expectOutput();
      // A new cell was sent meanwhile: ask about it, too, although it cannot have started.
      if (cell !== this.#running) return this.#ask(0);
      if (cell) return this.#catchUp(cell, answer, skip);
      this.#recovered();
    });
    this.#timer = setTimeout(() => {
      if (performance.now() - this.#unansweredSince >= SLOW_MS) this.#showHeld();
      // The kernel is in native code, or the connection is slow: a waiting cell need not wait longer.
      if (this.#socket.isConnected) this.#settle();
      this.#unanswered += 1;
      if (this.#unanswered >= UNANSWERED * this.#patience && !this.#isHeld) this.#connectAnew();
      else this.#ask(0);
    }, ANSWER_MS).unref();
  }

  #watch(): void {
    clearTimeout(this.#timer);
    const cell = this.#running;
    if (!cell || !this.#hasBroken || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      if (this.#isHeld) this.#watch();
      else if (cell === this.#running) this.#check(cell);
    }, CHECK_MS).unref();
  }

  /** Recovers what was missed if the cell has ended, or if nothing answers. */
  #check(cell: Cell): void {
    this.#question({ cell: cell.id, skip: NO_MESSAGES }, (answer) => {
      this.#unanswered = 0;
      this.#expectOutput();
      const hasEnded = answer.state !== "newest" || isRecord(answer.reply);
      if (hasEnded && cell === this.#running) this.#recover();
      else this.#watch();
    });
    this.#timer = setTimeout(() => {
      if (this.#isHeld) this.#watch();
      else this.#recover();
    }, ANSWER_MS).unref();
  }

  /** The kernel publishes its status around each answer, on the same path as output. */
  #expectOutput(): void {
    clearTimeout(this.#muteTimer);
    this.#muteTimer = setTimeout(() => {
      if (this.#unheard.length > 0 && !this.#isHeld && !this.#isClosed) this.#connectAnew();
    }, MUTE_MS * this.#patience).unref();
  }

  #connectAnew(): void {
    this.#unanswered = 0;
    this.#patience = Math.min(this.#patience * 2, MAX_PATIENCE);
    this.#socket.reconnect();
  }

  /** If the server has replaced the kernel, only the second question is answered. */
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

  #catchUp(cell: Cell, answer: Record<string, unknown>, skip: number): void {
    if (answer.state === "unknown") {
      this.#recovered();
      if (cell.request) void this.#socket.send(cell.request);
    } else {
      const messages = messagesOf(answer);
      const dropped = typeof answer.dropped === "number" ? answer.dropped : 0;
      if (skip < dropped && cell.seen.size < dropped) this.#note(cell, LATE_NOTE);
      for (const message of messages) {
        const loss = lossOf(message);
        if (loss === undefined) this.#pass(message, cell);
        else this.#lose(loss);
      }
      if (answer.more === true) {
        this.#ask(Math.max(skip, dropped) + messages.length);
        return;
      }
      if (isRecord(answer.reply) || answer.state === "over") this.#finish(cell, answer);
      this.#recovered();
    }
    for (const message of isOver(cell) ? [] : cell.further) void this.#socket.send(message);
  }

  #recovered(): void {
    this.#isRecovering = false;
    this.#release();
    this.#settle();
    this.#watch();
  }

  #settle(): void {
    for (const resolve of this.#settling.splice(0)) resolve();
  }

  #finish(cell: Cell, answer: Record<string, unknown>): void {
    const parent = { msg_id: cell.id };
    const about = { session: this.#session, parent };
    // Another request has followed this cell, so its outcome is no longer known.
    const isForgotten = answer.state === "over";
    if (isForgotten) this.#note(cell, LATE_NOTE);
    const reply = isRecord(answer.reply) ? answer.reply : { status: "ok" };
    this.#pass(createMessage("shell", "execute_reply", reply, about), cell);
    if (isForgotten) this.#pass(createMessage("iopub", "status", { execution_state: "idle" }, about), cell);
  }

  #note(cell: Cell, text: string): void {
    const about = { session: this.#session, parent: { msg_id: cell.id } };
    this.#listener(createMessage("iopub", "stream", { name: "stderr", text }, about));
  }

  /** Held messages are older: they are delivered first. */
  #lose(reason: string): void {
    this.#keepsAll = false;
    this.#release();
    this.#end(reason);
  }

  /** Shows held messages although the kernel cannot answer now; later ones are held again. */
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
    this.#settle();
    this.#closing.resolve({ reason });
    void this.#socket.close();
  }
}

function cellOf(id: string, request?: JupyterMessage): Cell {
  return { id, request, further: [], seen: new Set(), isReplied: false, isIdle: false, isRateReported: false };
}

function isOver(cell: Cell): boolean {
  return cell.isReplied && cell.isIdle;
}
