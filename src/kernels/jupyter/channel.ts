import type { JupyterMessage } from "./message.ts";
import type { Parentage } from "./message-gate.ts";

/** The way to one Jupyter kernel and back: the only difference between a local kernel and a remote one. */
export interface JupyterChannel {
  /** Resolves when the message has been handed to the transport. A channel that is closed takes it and drops it. */
  send(message: JupyterMessage): Promise<void>;

  /** What the kernel says on all its channels. One reader at a time; a later one goes on where the former stopped. */
  messages(): AsyncIterable<JupyterMessage>;

  /**
   * Stops taking in what cells show (`iopub`), or goes on with it; the kernel is held back meanwhile. Replies still
   * come. Absent: this transport cannot.
   */
  holdOutput?(held: boolean): void;

  /** Says whose messages are worth reading before they are read. Absent: this transport reads all of them. */
  judgeBy?(judge: (parentId: string | undefined) => Parentage): void;

  /** Resolves once, when no message can come any more, with a reason a user can read. Never rejects. */
  readonly closed: Promise<{ reason: string }>;

  close(): Promise<void>;
}
