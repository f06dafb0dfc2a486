import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { deflate } from "node:zlib";
import { CellwrightError } from "../../errors.ts";
import type { Language } from "../../execution.ts";
import { isRecord } from "../checked-event.ts";
import { heard, type JupyterChannel } from "../protocol/channel.ts";
import { createMessage } from "../protocol/message.ts";
import { packageDirs } from "../python/folders.ts";
import { shellScript } from "../shell/driver.ts";
import { lossOf } from "./loss.ts";

export interface AttachRequest {
  /** On the server: absolute, or relative to its user's home. Created if it does not exist. */
  workingDir: string;
  language: Language;
}

/** The kernel's description of itself once our Python is loaded. */
export interface About {
  /** Python's version. */
  version: string;
  /** The shell's version, if cells are for a shell. */
  shell?: string;
  pid: number;
  workingDir: string;
}

/**
 * Turns a stock ipykernel that a Jupyter server has started, and that is ready, into what `python/kernel/app.py` makes
 * of a local one. One silent cell carries all of it: no files on the server, no names in the user's namespace.
 */
export async function bootKernel(
  channel: JupyterChannel,
  { request, clientSession, signal }: { request: AttachRequest; clientSession: string; signal: AbortSignal },
): Promise<About> {
  let asked: string | undefined;
  const replied = heard(channel, signal, (message) => {
    const { header, parent, content } = message;
    const loss = lossOf(message);
    if (loss !== undefined) throw new CellwrightError("kernel_start_failed", loss);
    return header.msg_type === "execute_reply" && parent.msg_id === asked ? content : undefined;
  });
  const content = {
    code: await bootCell(request),
    silent: true,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false,
    user_expressions: { about: "__import__('_cellwright.attach').attach.About()" },
  };
  const message = createMessage("shell", "execute_request", content, { session: clientSession });
  asked = message.header.msg_id;
  await channel.send(message);
  return aboutOf(await replied);
}

async function bootCell(request: AttachRequest): Promise<string> {
  const sources = await modules();
  const shell = request.language === "bash" ? shellScript : undefined;
  const load = JSON.stringify({ loader: sources.loader, modules: sources, request: { ...request, shell } });
  const packed = (await promisify(deflate)(load)).toString("base64");
  const unpack = `__import__("json").loads(__import__("zlib").decompress(__import__("base64").b64decode("${packed}")))`;
  return `(lambda load: exec(load["loader"], {"load": load, "__name__": "_cellwright_loader"}))(${unpack})`;
}

let read: Promise<Record<string, string>> | undefined;

/** Source of our Python modules, by name. */
function modules(): Promise<Record<string, string>> {
  read ??= readModules();
  return read;
}

async function readModules(): Promise<Record<string, string>> {
  const sources: Record<string, string> = {};
  for (const folder of packageDirs) {
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
    hint: "Its `python3` kernel has to be ipykernel 6.17 or newer, on Linux or macOS.",
  });
}
