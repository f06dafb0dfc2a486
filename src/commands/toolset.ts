import type { Toolset, ToolsetCommand } from "../mcp/toolset.ts";
import type { Options, ParsedOptions } from "../options.ts";

export interface ToolsetStart {
  parse(env: NodeJS.ProcessEnv, defaults: Partial<Options>): ParsedOptions;
  /** One of our own commands. */
  run(parsed: ParsedOptions): Promise<number>;
}

/** Starts the program as another system is started. */
export async function runToolset(toolset: Toolset, { parse, run }: ToolsetStart): Promise<number> {
  const { defaults, command, commands = {}, modes = {}, environment, settle, refuse, version } = toolset.commandLine;
  const env = environment?.(process.env, process.cwd()) ?? process.env;
  const leave = (refusal: { message: string; exitCode: number }): number => {
    process.stderr.write(`${refusal.message}\n`);
    return refusal.exitCode;
  };
  let options: Options | undefined;
  try {
    const parsed = parse(env, defaults);
    if (settle) parsed.options = settle(parsed.options);
    options = parsed.options;
    if (parsed.extra.version && version !== undefined) {
      process.stdout.write(`${version}\n`);
      return 0;
    }
    const wantsHelp = parsed.extra.help || parsed.extra.version;
    const refusal = wantsHelp ? undefined : refuse?.(parsed);
    if (refusal) return leave(refusal);
    const [word = command, ...rest] = parsed.words;
    const own = word === undefined ? undefined : commands[word];
    if (own && !wantsHelp) return await withEngine(parsed.options, own);
    const mode = word === undefined ? undefined : modes[word];
    const words = [mode?.command ?? word ?? [], rest].flat();
    return await run({ ...parsed, words, options: { ...parsed.options, ...mode?.settings } });
  } catch (error) {
    const refusal = error instanceof Error ? refuse?.({ error, options }) : undefined;
    if (refusal) return leave(refusal);
    throw error;
  }
}

async function withEngine(options: Options, command: ToolsetCommand): Promise<number> {
  const { createApp } = await import("../app.ts");
  const app = await createApp(options);
  const stop = () => void app.dispose();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    return await command(app);
  } finally {
    await app.dispose();
  }
}
