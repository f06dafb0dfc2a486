import { readFile, writeFile } from "node:fs/promises";
import { createApp } from "../app.ts";
import type { Run } from "../engine/run/run.ts";
import { LOCAL_OWNER } from "../engine/sessions/sessions.ts";
import type { ExecutionEvent, MimeBundle } from "../execution.ts";
import { OptionError, type Options } from "../options/options.ts";
import { visible } from "../render/text/terminal.ts";
import { TerminalText } from "./terminal-text.ts";

/** Runs code in a new session and prints its output. Returns the exit code. */
export async function run(options: Options, source: { file?: string; code?: string }): Promise<number> {
  const code = source.code ?? (await readSource(source.file));
  const app = await createApp(options);
  const stop = () => void app.dispose();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    const session = await app.sessions.create(LOCAL_OWNER);
    const cell = session.execute(code);
    const spinner = showStart(cell);
    const print = printer();
    for await (const event of cell.events()) {
      spinner.stop();
      await print(event);
    }
    spinner.stop();
    const execution = await cell.finished;
    for (const notice of execution.notices) process.stderr.write(`${notice}\n`);
    for (const file of execution.files) {
      if (file.change !== "deleted")
        process.stderr.write(`wrote ${visible(session.workspace.hostPath?.(file.path) ?? file.path)}\n`);
    }
    await app.sessions.close(session, { deleteFiles: execution.files.length === 0 });
    return execution.status === "ok" ? 0 : 1;
  } finally {
    await app.dispose();
  }
}

async function readSource(file: string | undefined): Promise<string> {
  if (file === undefined) throw new OptionError("`cellwright run` needs a FILE, or code after -c.");
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new OptionError(`Cannot read \`${file}\`: ${(error as Error).message}`);
  }
}

/** Prints output; harmful escape sequences are removed for a terminal, pipes get everything unchanged. */
function printer(): (event: ExecutionEvent) => Promise<void> {
  const out = writerTo(process.stdout);
  const err = writerTo(process.stderr);
  return async (event) => {
    if (event.type === "stream") (event.name === "stdout" ? out : err)(event.text);
    else if (event.type === "error") err(`${event.traceback.join("\n").trimEnd()}\n`);
    else if (event.type === "display" || event.type === "result" || event.type === "update") {
      if (!(await saveFigure(event.data))) out(`${event.data["text/plain"] ?? ""}\n`);
    }
  };
}

function writerTo(stream: NodeJS.WriteStream): (text: string) => void {
  if (!stream.isTTY) return (text) => void stream.write(text);
  const filter = new TerminalText();
  return (text) => void stream.write(filter.push(text));
}

async function saveFigure(data: MimeBundle): Promise<boolean> {
  const image = data["image/png"];
  if (typeof image !== "string") return false;
  const name = await writeNew(Buffer.from(image, "base64"));
  process.stderr.write(`saved ${name}\n`);
  return true;
}

/** Uses the first free name: never overwrites a file, nor follows a symlink. */
async function writeNew(bytes: Buffer): Promise<string> {
  for (let number = 1; ; number += 1) {
    const name = `figure-${number}.png`;
    try {
      await writeFile(name, bytes, { flag: "wx" });
      return name;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** Shows the progress of a slow start on one line, if stderr is a terminal. */
function showStart(cell: Run): { stop(): void } {
  if (!process.stderr.isTTY) return { stop: () => {} };
  const timer = setInterval(() => {
    if (cell.phase === "starting") process.stderr.write(`\r\u001b[K${cell.startMessage || "starting the kernel"} …`);
  }, 200);
  return {
    stop: () => {
      clearInterval(timer);
      if (cell.phase !== "starting") process.stderr.write("\r\u001b[K");
    },
  };
}
