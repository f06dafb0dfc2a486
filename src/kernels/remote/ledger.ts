import { isRecord } from "../checked-event.ts";
import { headerOf, type JupyterMessage } from "../protocol/message.ts";

/** See python/output/ledger.py. */
export interface NewestCell {
  cell: string;
  code: string;
  silent: boolean;
  /** Number of messages dropped from the beginning. */
  dropped: number;
  messages: JupyterMessage[];
  /** Absent while it runs. */
  reply?: Record<string, unknown>;
}

/** The messages in a ledger's answer. */
export function messagesOf({ messages }: Record<string, unknown>): JupyterMessage[] {
  if (!Array.isArray(messages)) return [];
  return messages.filter(isMessage).map((message) => ({ ...message, channel: "iopub" as const, buffers: [] }));
}

function isMessage(value: unknown): value is Omit<JupyterMessage, "channel" | "buffers"> {
  return (
    isRecord(value) &&
    isRecord(value.header) &&
    headerOf(value.header) !== undefined &&
    [value.parent, value.metadata, value.content].every(isRecord)
  );
}
