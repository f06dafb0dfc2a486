import type { ExecutionEvent } from "../../execution.ts";
import type { SandboxReply } from "../../sandbox/protocol.ts";

/** Converts a sandbox's reply to events, without `done`. */
export function eventsOf(reply: SandboxReply): ExecutionEvent[] {
  const events: ExecutionEvent[] = [];
  const { stdout, stderr, images, result } = reply.output;
  const isSuccess = reply.status === "success";
  const { before, traceback } = isSuccess ? { before: stderr, traceback: [] } : splitTraceback(reply);
  if (stdout !== "") events.push({ type: "stream", name: "stdout", text: stdout });
  if (before !== "") events.push({ type: "stream", name: "stderr", text: before });
  for (const image of images) events.push({ type: "display", data: { "image/png": image } });
  if (result !== undefined) events.push({ type: "result", data: { "text/plain": result } });
  if (!isSuccess) events.push({ type: "error", ...splitError(reply.error), traceback });
  return events;
}

/** `NameError: name 'x' is not defined` → name and message. */
function splitError(error = ""): { name: string; message: string } {
  const [, name, message] = /^([\p{L}_][\p{L}\p{N}_.]*)(?:: ?|$)(.*)$/su.exec(error) ?? [];
  if (name !== undefined) return { name, message: message ?? "" };
  return { name: "Error", message: error === "" ? "The sandbox gave no reason." : error };
}

/** Sandboxes append the traceback to the cell's own stderr. */
function splitTraceback({ error, output: { stderr } }: SandboxReply): { before: string; traceback: string[] } {
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
