import { randomUUID } from "node:crypto";
import { isRecord } from "../../checked-event.ts";
import type { JupyterChannel } from "../../protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../../protocol/message.ts";
import { deferred } from "../../starting.ts";
import { lossOf } from "../loss.ts";

/** The kernel is gone or unreachable: the operation may or may not have been done. */
export class HelperLost extends Error {}

/** Code to run, and an expression whose value is the answer. */
export interface Question {
  code: string;
  expression?: string;
}

interface Pending {
  /** Sent after a reconnect: the operation may already have been done. */
  again: Question;
  /** The ids of all messages that asked it. */
  ids: string[];
  resolve: (text: string) => void;
  reject: (error: Error) => void;
}

interface Channel extends JupyterChannel {
  onReconnect?(listener: () => void): void;
}

/**
 * A stock kernel that answers questions. The answer is part of the reply, not output: servers drop output above their
 * rate limit, but never replies.
 */
export class HelperKernel {
  readonly #losing = deferred<string>();
  /** Resolves once, with the reason. Never rejects. */
  readonly lost = this.#losing.promise;
  readonly #channel: Channel;
  readonly #session = randomUUID();
  readonly #silenceMs: number;
  readonly #pending = new Map<string, Pending>();
  #silence: NodeJS.Timeout | undefined;
  #lostReason: string | undefined;

  constructor(channel: Channel, { silenceMs }: { silenceMs: number }) {
    this.#channel = channel;
    this.#silenceMs = silenceMs;
    void channel.closed.then(({ reason }) => this.lose(reason));
    channel.onReconnect?.(() => this.#askAgain());
    channel.listen((message) => this.#hear(message));
  }

  /** Resolves with the answer's text. Throws `HelperLost`, or the error that Python raised. */
  ask(question: Question, again: Question = question): Promise<string> {
    if (this.#lostReason !== undefined) return Promise.reject(new HelperLost(this.#lostReason));
    return new Promise((resolve, reject) => {
      const pending: Pending = { again, ids: [], resolve, reject };
      this.#send(pending, question);
    });
  }

  lose(reason: string): void {
    if (this.#lostReason !== undefined) return;
    this.#lostReason = reason;
    clearTimeout(this.#silence);
    for (const pending of new Set(this.#pending.values())) pending.reject(new HelperLost(reason));
    this.#pending.clear();
    void this.#channel.close();
    this.#losing.resolve(reason);
  }

  #send(pending: Pending, { code, expression }: Question): void {
    const content = {
      code,
      silent: true,
      store_history: false,
      user_expressions: expression === undefined ? {} : { answer: expression },
      allow_stdin: false,
      stop_on_error: false,
    };
    const message = createMessage("shell", "execute_request", content, { session: this.#session });
    pending.ids.push(message.header.msg_id);
    this.#pending.set(message.header.msg_id, pending);
    this.#expectAnswer();
    void this.#channel.send(message);
  }

  /** Requests that were in flight when the connection broke may never have arrived. */
  #askAgain(): void {
    for (const pending of new Set(this.#pending.values())) this.#send(pending, pending.again);
  }

  #hear(message: JupyterMessage): void {
    if (lossOf(message) !== undefined) this.lose("The helper kernel died.");
    if (message.header.msg_type === "execute_reply") this.#take(message);
  }

  #take({ parent, content }: JupyterMessage): void {
    const pending = this.#pending.get(parent.msg_id ?? "");
    if (!pending) return;
    for (const id of pending.ids) this.#pending.delete(id);
    this.#expectAnswer();
    const text = answerIn(content);
    if (typeof text === "string") pending.resolve(text);
    else pending.reject(text);
  }

  /** A helper that is silent for this long while requests are pending is stuck. */
  #expectAnswer(): void {
    clearTimeout(this.#silence);
    if (this.#pending.size === 0) return;
    const reason = `The helper kernel did not answer for ${Math.round(this.#silenceMs / 1000)} s.`;
    this.#silence = setTimeout(() => this.lose(reason), this.#silenceMs).unref();
  }
}

function answerIn(content: Record<string, unknown>): string | Error {
  if (content.status !== "ok") return new Error(`${content.ename}: ${content.evalue}`);
  const expressions = isRecord(content.user_expressions) ? content.user_expressions : {};
  const answer = expressions.answer;
  if (answer === undefined) return "";
  if (isRecord(answer) && isRecord(answer.data)) return String(answer.data["text/plain"]);
  return new Error(isRecord(answer) ? `${answer.ename}: ${answer.evalue}` : "no answer");
}
