import { isRecord } from "../events.ts";
import { headerOf, type JupyterMessage } from "../message.ts";

/** See host/ledger.py. */
export interface NewestTold {
  cell: string;
  code: string;
  silent: boolean;
  /** Messages that are not here any more, from the beginning. */
  dropped: number;
  messages: JupyterMessage[];
  /** Absent while it runs. */
  reply?: Record<string, unknown>;
}

/** The messages in a ledger's answer. */
export function messagesOf({ messages }: Record<string, unknown>): JupyterMessage[] {
  if (!Array.isArray(messages)) return [];
  return messages.filter(isTold).map((told) => ({ ...told, channel: "iopub" as const, buffers: [] }));
}

function isTold(value: unknown): value is Omit<JupyterMessage, "channel" | "buffers"> {
  return (
    isRecord(value) &&
    isRecord(value.header) &&
    headerOf(value.header) !== undefined &&
    [value.parent, value.metadata, value.content].every(isRecord)
  );
}
