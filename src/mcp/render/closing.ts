import type { Execution, FileChange } from "../../execution.ts";
import type { Link } from "../tool.ts";
import { fileUri } from "../uri.ts";
import { showBytes, showDuration } from "./amounts.ts";
import { cutText } from "./cut.ts";
import { visible } from "./terminal.ts";

/** Changed files that a reply links. A cell that unpacks an archive makes thousands. */
const MAX_FILE_LINKS = 20;
/** A longer address is of no use to anybody and would fill the reply. */
const MAX_URI_CHARS = 1_000;
/** Of the budget, for each of notices and files. */
const SHARE = 0.15;

export interface ClosingFacts {
  sessionId: string;
  execution: Execution;
  queued: boolean;
  /** Set for a session's first cell: where it runs. */
  kernel?: string;
  notices: string[];
}

/** The end of a reply: our sentences about the cell, the files it changed, and the line that says how it ended. */
export function closingText(facts: ClosingFacts, budget: number): string {
  const notices = facts.notices.map((notice) => `${visible(notice)}\n`).join("");
  const files = filesText(facts.execution.files, Math.floor(budget * SHARE));
  return cutText(notices, Math.floor(budget * SHARE)) + files + lastLine(facts);
}

export function fileLinks(sessionId: string, files: FileChange[]): Link[] {
  return files
    .filter((file) => file.change !== "deleted")
    .slice(0, MAX_FILE_LINKS)
    .map(({ path, mimeType, sizeBytes }) => ({
      uri: fileUri(sessionId, path.toWellFormed()),
      name: visible(path),
      mimeType,
      sizeBytes,
    }))
    .filter(({ uri }) => uri.length <= MAX_URI_CHARS);
}

function filesText(files: FileChange[], maxChars: number): string {
  if (files.length === 0) return "";
  let text = "Files:";
  for (const [index, { path, change, sizeBytes }] of files.entries()) {
    const size = change === "deleted" ? "" : ` (${showBytes(sizeBytes)})`;
    const name = visible(path).replaceAll("\n", "\u240a");
    const next = `${index === 0 ? "" : ","} ${change} ${name}${size}`;
    const rest = `, and ${files.length - index} more`;
    if (text.length + next.length + rest.length > maxChars) return `${text}${index === 0 ? rest.slice(5) : rest}\n`;
    text += next;
  }
  return `${text}\n`;
}

function lastLine({ sessionId, execution, queued, kernel }: ClosingFacts): string {
  const { id, status, executionCount, durationMs, outputs, files } = execution;
  const facts = [`session ${sessionId}`];
  if (executionCount !== null) facts.push(`cell ${executionCount}`);
  if (status === "running") {
    facts.push(`execution ${id}`, queued ? "waiting for its turn behind another cell" : "running");
    facts.push(showDuration(durationMs), "call wait with this session_id for the rest, or interrupt to stop it");
  } else {
    facts.push(status, showDuration(durationMs));
    if (outputs.length === 0 && files.length === 0) facts.push("no output");
  }
  if (kernel) facts.push(kernel);
  return `[${facts.join(" · ")}]`;
}
