import { stat } from "node:fs/promises";
import type { ExecutionEvent } from "../../execution.ts";
import { eventOf } from "./events.ts";
import { readJournal } from "./journal.ts";
import type { JupyterMessage } from "./message.ts";

/** A kernel's newest cell, as far as its journal has it. */
export interface NewestCell {
  /** The request's id. */
  id: string;
  code: string;
  executionCount: number | null;
  events: ExecutionEvent[];
  failed: boolean;
  over: boolean;
  /** Ids of the journal's messages, to ignore those that also arrive from the kernel. */
  seen: Set<string>;
}

/** Undefined if no cell began, or if the journal is missing or was damaged by user code. */
export async function readNewestCell(journalFile: string, key: string): Promise<NewestCell | undefined> {
  let cell: NewestCell | undefined;
  try {
    for await (const message of readJournal(journalFile, key)) {
      const id = message.parent.msg_id;
      if (id === undefined) continue;
      if (message.header.msg_type === "execute_input") cell = beginning(id, message);
      if (cell?.id === id) add(message, cell);
    }
  } catch {
    // Keep what was read so far.
  }
  return cell;
}

/** The journal's messages of a cell, if it still is the newest. Never rejects. */
export async function messagesOf(
  cellId: string | undefined,
  journalFile: string,
  key: string,
): Promise<JupyterMessage[]> {
  const messages: JupyterMessage[] = [];
  try {
    for await (const message of readJournal(journalFile, key)) {
      if (message.parent.msg_id === cellId) messages.push(message);
    }
  } catch {
    // What was read up to here stands.
  }
  return messages;
}

/** A larger journal is a flood of output, whose last lines do not matter. */
const MAX_LAST_WORDS_BYTES = 4 * 1024 * 1024;

/** A cell's output before its kernel died, if that cell was the newest. Never rejects. */
export async function shownBy(cellId: string, journalFile: string, key: string): Promise<ExecutionEvent[]> {
  const size = await stat(journalFile).then(
    ({ size }) => size,
    () => Number.POSITIVE_INFINITY,
  );
  const cell = size > MAX_LAST_WORDS_BYTES ? undefined : await readNewestCell(journalFile, key);
  return cell?.id === cellId ? cell.events : [];
}

function beginning(id: string, { content }: JupyterMessage): NewestCell {
  const executionCount = typeof content.execution_count === "number" ? content.execution_count : null;
  const code = typeof content.code === "string" ? content.code : "";
  return { id, code, executionCount, events: [], failed: false, over: false, seen: new Set() };
}

function add(message: JupyterMessage, cell: NewestCell): void {
  cell.seen.add(message.header.msg_id);
  // Late output is dropped.
  if (cell.over) return;
  cell.over = isIdle(message);
  const event = eventOf(message);
  if (!event) return;
  cell.failed ||= event.type === "error";
  cell.events.push(event);
}

/** Whether the message reports that its parent's request is done and all output was sent. */
export function isIdle({ channel, header, content }: JupyterMessage): boolean {
  return channel === "iopub" && header.msg_type === "status" && content.execution_state === "idle";
}
