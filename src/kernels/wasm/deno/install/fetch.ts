/**
 * The fetcher: downloads files into a folder. `install-fetch <folder>`, one JSON line per request and answer. Only it
 * has network access, to named hosts, and it never reads what it downloads; install.ts does, without network.
 */
import { createHash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { deno } from "../deno.ts";
import { LineSplitter } from "../lines.ts";
import type { FetchAnswer, FetchRequest } from "./frames.ts";

const STDOUT = 1;
const MAX_LINE_CHARS = 64 * 1024;

/** Proxies in front of an index fail now and then. One retry after half a second often helps, a second one rarely. */
const RETRY_AFTER_MS = 500;
const passingStatuses = [429, 500, 502, 503, 504];

const folder = deno.args[0] ?? "";
const splitter = new LineSplitter(MAX_LINE_CHARS);
for await (const chunk of deno.stdin.readable) {
  for (const line of splitter.push(chunk)) void answer(JSON.parse(line));
}
deno.exit();

async function answer(request: FetchRequest): Promise<void> {
  let result = await attempt(request);
  if (result.kind === "file" ? passingStatuses.includes(result.status) : !result.silent) {
    await pause(RETRY_AFTER_MS);
    result = await attempt(request);
  }
  writeSync(STDOUT, `${JSON.stringify(result)}\n`);
}

async function attempt({ id, url, headers, quietMs }: FetchRequest): Promise<FetchAnswer> {
  const silence = new AbortController();
  const patience = setTimeout(() => silence.abort(new Error(`no answer within ${quietMs / 1000} s`)), quietMs);
  const file = `${folder}/${id}`;
  try {
    const response = await fetch(url, { headers, signal: silence.signal });
    const hash = createHash("sha256");
    const descriptor = openSync(file, "w", 0o600);
    try {
      for await (const chunk of response.body ?? []) {
        patience.refresh();
        hash.update(chunk);
        for (let at = 0; at < chunk.length; ) at += writeSync(descriptor, chunk, at);
      }
    } finally {
      closeSync(descriptor);
    }
    const contentType = response.headers.get("content-type") ?? "";
    const sha256 = hash.digest("hex");
    return { id, kind: "file", status: response.status, contentType, url: response.url, file, sha256 };
  } catch (error) {
    return { id, kind: "unreachable", reason: reasonOf(error), silent: silence.signal.aborted };
  } finally {
    clearTimeout(patience);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Deno checks each redirect against the allowed hosts.
  if (error.name === "NotCapable") return `it leads to a host that the index does not name (${quoted(error.message)})`;
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function quoted(message: string): string {
  return /"([^"]*)"/.exec(message)?.[1] ?? message;
}
