import { stat } from "node:fs/promises";
import type { ExecutionEvent } from "../../execution.ts";
import { eventOf } from "./events.ts";
import { readJournal } from "./journal.ts";
import type { JupyterMessage } from "./message.ts";

/** The newest cell of a kernel, as far as its journal tells. */
export interface NewestCell {
  /** Of the request that began it. */
  id: string;
  code: string;
  executionCount: number | null;
  events: ExecutionEvent[];
  failed: boolean;
  over: boolean;
  /** The messages that were in the journal: those that come from the kernel as well are no news. */
  seen: Set<string>;
}

/** Undefined when no cell began, or the journal does not tell: it is missing, or user code has been at it. */
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
    // What was read up to here stands.
  }
  return cell;
}

/** More of it is a flood, of whose end nobody misses the last line. */
const MAX_LAST_WORDS_BYTES = 4 * 1024 * 1024;

/** What a cell showed before its kernel died, if that cell was the newest. Never rejects. */
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
  // What a thread shows after the end is not in time for anybody.
  if (cell.over) return;
  cell.over = isIdle(message);
  const event = eventOf(message);
  if (!event) return;
  cell.failed ||= event.type === "error";
  cell.events.push(event);
}

/** Says that what its parent asked for is done, and all of it has been shown. */
export function isIdle({ channel, header, content }: JupyterMessage): boolean {
  return channel === "iopub" && header.msg_type === "status" && content.execution_state === "idle";
}
