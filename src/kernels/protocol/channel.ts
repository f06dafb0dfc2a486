import { CellwrightError } from "../../errors.ts";
import { deferred } from "../starting.ts";
import type { JupyterMessage } from "./message.ts";
import type { Parentage } from "./message-gate.ts";

export type Listener = (message: JupyterMessage) => void;

/** The connection to one Jupyter kernel: the only difference between a local kernel and a remote one. */
export interface JupyterChannel {
  /** Resolves when the message has been handed to the transport. A closed channel drops it silently. */
  send(message: JupyterMessage): Promise<void>;

  /** Sets the listener for the kernel's messages on all channels, replacing the previous one. */
  listen(listener: Listener): void;

  /** Back-pressure: pauses or resumes reading cells' output (iopub). Replies still arrive. Absent: unsupported. */
  holdOutput?(held: boolean): void;

  /** Sets how to classify messages before they are parsed. Absent: this transport parses all of them. */
  judgeBy?(judge: (parentId: string | undefined) => Parentage): void;

  /**
   * Resolves with true when the same kernel is known to be at the other end, with false when it is gone. Does not wait
   * for one that does not answer. Absent: this transport does not reconnect.
   */
  settled?(): Promise<boolean>;

  /** Resolves when no more messages can arrive, with a reason for the user. Never rejects. */
  readonly closed: Promise<{ reason: string }>;

  close(): Promise<void>;
}

/**
 * Resolves with the first defined result of `hear`, which stays the listener until another one is set. Rejects when
 * `hear` throws, when `signal` aborts, and when the channel closes.
 */
export function heard<T>(
  channel: JupyterChannel,
  signal: AbortSignal,
  hear: (message: JupyterMessage) => T | undefined,
): Promise<T> {
  const { promise, resolve, reject } = deferred<T>();
  const stop = () => reject(signal.reason);
  signal.addEventListener("abort", stop);
  void channel.closed.then(({ reason }) => reject(new CellwrightError("kernel_start_failed", reason)));
  channel.listen((message) => {
    try {
      const found = hear(message);
      if (found !== undefined) resolve(found);
    } catch (error) {
      reject(error);
    }
  });
  if (signal.aborted) stop();
  const end = () => signal.removeEventListener("abort", stop);
  promise.then(end, end);
  return promise;
}
