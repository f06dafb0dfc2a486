import type { Variables } from "../../execution.ts";
import { quoted } from "./driver.ts";

/** A file of assignments, read before the cell. Not exported: a process's environment cannot hold large values. */
export function assignments(variables: Variables): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${quoted(asText(value))}\n`)
    .join("");
}

/** Why a shell cannot run this cell, as a sentence; undefined if it can. */
export function obstacleTo(code: string, variables: Variables = {}): string | undefined {
  const position = code.indexOf("\0");
  if (position >= 0) {
    const line = code.slice(0, position).split("\n").length;
    return `The code has a NUL character in line ${line}, which no shell can read.`;
  }
  for (const [name, value] of Object.entries(variables)) {
    const shown = JSON.stringify(name.slice(0, 100));
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      return `${shown} cannot be the name of a shell variable: use letters, digits and \`_\`.`;
    }
    if (asText(value).includes("\0"))
      return `The value of ${shown} has a NUL character, which no shell variable can hold.`;
  }
  return undefined;
}

/** Text unchanged, bytes as base64, anything else as JSON. */
function asText(value: Variables[string]): string {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : JSON.stringify(value);
}
