import { readFile, writeFile } from "node:fs/promises";
import { createApp } from "../app.ts";
import type { ExecutionEvent, MimeBundle } from "../execution.ts";
import { OptionError, type Options } from "../options.ts";
import type { Run } from "../session/run.ts";
import { LOCAL_OWNER } from "../session/sessions.ts";

/** Runs one piece of code in a session of its own and prints as a terminal would. Returns the exit code. */
export async function run(options: Options, source: { file?: string; code?: string }): Promise<number> {
  const code = source.code ?? (await readSource(source.file));
  const app = await createApp(options);
  const stop = () => void app.dispose();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    const session = await app.sessions.create(LOCAL_OWNER);
    const cell = session.execute(code);
    const spinner = showStart(cell);
    const figures: string[] = [];
    for await (const event of cell.events()) {
      spinner.stop();
      await print(event, figures);
    }
    spinner.stop();
    const execution = await cell.finished;
    for (const notice of execution.notices) process.stderr.write(`${notice}\n`);
    for (const file of execution.files) {
      if (file.change !== "deleted")
        process.stderr.write(`wrote ${session.workspace.hostPath?.(file.path) ?? file.path}\n`);
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
    throw new OptionError(`\`${file}\` cannot be read: ${(error as Error).message}`);
  }
}

async function print(event: ExecutionEvent, figures: string[]): Promise<void> {
  if (event.type === "stream") (event.name === "stdout" ? process.stdout : process.stderr).write(event.text);
  else if (event.type === "error") process.stderr.write(`${event.traceback.join("\n").trimEnd()}\n`);
  else if (event.type === "display" || event.type === "result" || event.type === "update") {
    if (!(await saveFigure(event.data, figures))) process.stdout.write(`${event.data["text/plain"] ?? ""}\n`);
  }
}

async function saveFigure(data: MimeBundle, figures: string[]): Promise<boolean> {
  const image = data["image/png"];
  if (typeof image !== "string") return false;
  const name = `figure-${figures.length + 1}.png`;
  await writeFile(name, Buffer.from(image, "base64"));
  figures.push(name);
  process.stderr.write(`saved ${name}\n`);
  return true;
}

/** Says what a slow start is doing, on one line of the terminal; nothing where stderr is not one. */
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
