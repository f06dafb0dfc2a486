import type { JsonStyle } from "../../kernels/kernel.ts";
import type { ScriptResult } from "./script.ts";

export type ReturnMode = "xml" | "json";

/** Style of the value: for people in XML, for programs in JSON, which has no NaN. */
export function jsonStyle(mode: ReturnMode): JsonStyle {
  return mode === "xml" ? { indent: 2, quoteNonFinite: false } : { indent: 0, quoteNonFinite: true };
}

export function resultText(result: ScriptResult, mode: ReturnMode, dependencies: string[] = []): string {
  return mode === "xml" ? asXml(result, dependencies) : asJson(result);
}

function asXml({ status, output, value, error }: ScriptResult, dependencies: string[]): string {
  const lines = [`<status>${status}</status>`];
  if (dependencies.length > 0) lines.push(`<dependencies>${JSON.stringify(dependencies)}</dependencies>`);
  if (output.length > 0) lines.push("<output>", ...output.map((line) => escaped(line, "output")), "</output>");
  if (status === "success") {
    // A string without quotes; an empty one has no element.
    const text = value?.isString ? String(JSON.parse(value.text)).toWellFormed() : (value?.text ?? "");
    if (text !== "") lines.push("<return_value>", escaped(text, "return_value"), "</return_value>");
  } else lines.push("<error>", escaped(error ?? "", "error"), "</error>");
  return lines.join("\n");
}

/** The value is inserted as text: parsing it could change large numbers. */
function asJson({ status, output, value, error }: ScriptResult): string {
  const beginning = `{"status":${JSON.stringify(status)},"output":${JSON.stringify(output)}`;
  if (status === "success") return `${beginning},"return_value":${value?.text ?? "null"}}`;
  return `${beginning},"error":${JSON.stringify(error)}}`;
}

/** Escapes the enclosing tag, so that output cannot close it; other markup stays. */
function escaped(text: string, tag: string): string {
  const lookAlikes = new RegExp(`</?\\s*${tag}(?:.*?>)?`, "gi");
  return text.replace(lookAlikes, (match) => match.replaceAll("<", "&lt;").replaceAll(">", "&gt;"));
}
