import type { ExecutionEvent } from "../../execution.ts";
import type { SandboxReply } from "./client.ts";

/** What a sandbox said about a cell, as the events it would have been told by. All but `done`. */
export function eventsOf(reply: SandboxReply): ExecutionEvent[] {
  const events: ExecutionEvent[] = [];
  const { before, traceback } = reply.isSuccess ? { before: reply.stderr, traceback: [] } : splitTraceback(reply);
  if (reply.stdout !== "") events.push({ type: "stream", name: "stdout", text: reply.stdout });
  if (before !== "") events.push({ type: "stream", name: "stderr", text: before });
  for (const image of reply.images) events.push({ type: "display", data: { "image/png": image } });
  if (reply.result !== undefined) events.push({ type: "result", data: { "text/plain": reply.result } });
  if (!reply.isSuccess) events.push({ type: "error", ...splitError(reply.error), traceback });
  return events;
}

/** `NameError: name 'x' is not defined` → its name and its message. */
function splitError(error: string): { name: string; message: string } {
  const [, name, message] = /^([\p{L}_][\p{L}\p{N}_.]*)(?:: ?|$)(.*)$/su.exec(error) ?? [];
  if (name !== undefined) return { name, message: message ?? "" };
  return { name: "Error", message: error === "" ? "The sandbox does not say what went wrong." : error };
}

/** Sandboxes write the traceback to stderr, behind what the cell wrote there itself. */
function splitTraceback({ stderr, error }: SandboxReply): { before: string; traceback: string[] } {
  const { name } = splitError(error);
  const lines = stderr.trimEnd().split("\n");
  const heading = lines.findLastIndex((line) => line.includes("Traceback (most recent call last)"));
  // A syntax error has no heading.
  const first = heading >= 0 ? heading : lines.findLastIndex((line) => /^ {2}(File "|Cell In\[)/.test(line));
  const last = lines.findLastIndex((line) => line.startsWith(name));
  if (first < 0 || last < first) return { before: stderr, traceback: [] };
  const before = lines.slice(0, first).map((line) => `${line}\n`);
  return { before: before.join(""), traceback: lines.slice(first) };
}
