import type { Execution, Output } from "../execution.ts";
import type { SandboxReply } from "./protocol.ts";

const TIMED_OUT = "TimeOutError: code execution timed out";

/** A request that failed before a cell ran. */
export function failureReply(error: string): SandboxReply {
  return { status: "error", error, output: { stdout: "", stderr: "", images: [] } };
}

/**
 * The reply for a cell that has ended. Notices about lost variables go to stderr, where people look; a traceback is
 * last.
 */
export function sandboxReply(execution: Execution): SandboxReply {
  const { outputs, notices, status } = execution;
  const error = errorOf(execution);
  const result = outputs.findLast((output) => output.type === "result");
  const text = result && plainText(result.data);
  return {
    status: status === "ok" ? "success" : "error",
    execution_time: execution.durationMs / 1000,
    ...(error === undefined ? {} : { error }),
    output: {
      stdout: outputs.map((output) => stdoutOf(output)).join(""),
      stderr: [
        ...notices.map((notice) => `${notice}\n`),
        ...outputs.map((output) => streamText(output, "stderr")),
        ...outputs.map((output) => (output.type === "error" ? `${output.traceback.join("\n").trimEnd()}\n` : "")),
        status === "timeout" ? `${TIMED_OUT}\n` : "",
      ]
        .map(withoutColours)
        .join(""),
      images: outputs.flatMap((output) => picture(output) ?? []),
      ...(text === undefined ? {} : { result: text }),
    },
  };
}

function errorOf({ status, outputs, notices }: Execution): string | undefined {
  if (status === "ok") return undefined;
  if (status === "timeout") return TIMED_OUT;
  const error = outputs.findLast((output) => output.type === "error");
  if (error && status === "error") return withoutColours(`${error.name}: ${error.message}`);
  const name = status === "kernel_died" ? "KernelDied" : "KeyboardInterrupt";
  return `${name}: ${notices.at(-1) ?? "the cell was stopped."}`;
}

/** Printed text and non-image displays, as a terminal would show them. */
function stdoutOf(output: Output): string {
  if (output.type === "display" && picture(output) === undefined) {
    const text = plainText(output.data);
    return text === undefined ? "" : `${text}\n`;
  }
  return withoutColours(streamText(output, "stdout"));
}

function streamText(output: Output, name: "stdout" | "stderr"): string {
  if (output.type !== "stream" || output.name !== name) return "";
  const { text, cut } = output;
  if (!cut) return text;
  return `${text.slice(0, cut.at)}\n[… ${cut.chars} characters left out …]\n${text.slice(cut.at)}`;
}

function picture(output: Output): string | undefined {
  if (output.type !== "display" && output.type !== "result") return undefined;
  const png = output.data["image/png"];
  return typeof png === "string" ? png.replace(/\s/g, "") : undefined;
}

function plainText(data: Record<string, unknown>): string | undefined {
  const text = data["text/plain"];
  return typeof text === "string" ? withoutColours(text) : undefined;
}

function withoutColours(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one.
  return text.replace(/\u001b\[[0-?]*[ -/]*[@-~]/g, "");
}
