import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { deflate } from "node:zlib";
import { CellwrightError } from "../../../errors.ts";
import type { Language } from "../../../execution.ts";
import type { JupyterChannel } from "../channel.ts";
import { hostDir, preludeDir } from "../cold.ts";
import { isRecord } from "../events.ts";
import { createMessage } from "../message.ts";
import { lossOf } from "./loss.ts";

export interface LiveRequest {
  /** On the server: absolute, or from its user's home. It is made if it is not there. */
  workingDir: string;
  language: Language;
}

/** What a kernel says of itself when it has become one of ours. */
export interface About {
  /** Of Python. */
  version: string;
  /** Of the shell, where cells are for one. */
  shell?: string;
  pid: number;
  workingDir: string;
}

/**
 * Turns a stock ipykernel that a Jupyter server has started, and that is ready, into what `host/app.py` makes of a local
 * one. All it needs comes with one silent cell: no files on the server, no names in the user's namespace.
 */
export async function bootKernel(
  channel: JupyterChannel,
  { request, clientSession, signal }: { request: LiveRequest; clientSession: string; signal: AbortSignal },
): Promise<About> {
  const content = {
    code: await bootCell(request),
    silent: true,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false,
    user_expressions: { about: "__import__('_cellwright.live').live.About()" },
  };
  const message = createMessage("shell", "execute_request", content, { session: clientSession });
  const reader = channel.messages()[Symbol.asyncIterator]();
  const stop = (): void => void reader.return?.();
  signal.addEventListener("abort", stop);
  try {
    await channel.send(message);
    for (;;) {
      const { done, value } = await reader.next();
      signal.throwIfAborted();
      const loss = done ? (await channel.closed).reason : lossOf(value);
      if (loss !== undefined) throw new CellwrightError("kernel_start_failed", loss);
      const isReply = value.header.msg_type === "execute_reply" && value.parent.msg_id === message.header.msg_id;
      if (isReply) return aboutOf(value.content);
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

async function bootCell(request: LiveRequest): Promise<string> {
  const sources = await modules();
  const load = JSON.stringify({ loader: sources.carried, modules: sources, request });
  const packed = (await promisify(deflate)(load)).toString("base64");
  const unpack = `__import__("json").loads(__import__("zlib").decompress(__import__("base64").b64decode("${packed}")))`;
  return `(lambda load: exec(load["loader"], {"load": load, "__name__": "_cellwright_carried"}))(${unpack})`;
}

let read: Promise<Record<string, string>> | undefined;

/** Our Python, by the name of each module. */
function modules(): Promise<Record<string, string>> {
  read ??= readModules();
  return read;
}

async function readModules(): Promise<Record<string, string>> {
  const sources: Record<string, string> = {};
  for (const folder of [preludeDir, hostDir]) {
    for (const file of await readdir(folder)) {
      if (file.endsWith(".py")) sources[basename(file, ".py")] = await readFile(join(folder, file), "utf8");
    }
  }
  return sources;
}

function aboutOf(reply: Record<string, unknown>): About {
  const { status, ename, evalue, user_expressions: expressions } = reply;
  if (status !== "ok") throw failed(`${ename}: ${evalue}`);
  const about = isRecord(expressions) && isRecord(expressions.about) ? expressions.about : {};
  const text = isRecord(about.data) ? about.data["text/plain"] : undefined;
  if (typeof text !== "string") throw failed(`${about.ename ?? "no answer"}: ${about.evalue ?? ""}`);
  return JSON.parse(text) as About;
}

function failed(why: string): CellwrightError {
  const message = `The server's Python kernel cannot be prepared: ${why.slice(0, 500)}.`;
  return new CellwrightError("kernel_start_failed", message, {
    hint: "Its `python3` kernel has to be ipykernel 6 or newer, on Linux or macOS.",
  });
}
