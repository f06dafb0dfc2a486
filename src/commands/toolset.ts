import type { Toolset } from "../mcp/toolset.ts";
import type { Options, ParsedOptions } from "../options.ts";

export interface ToolsetStart {
  parse(env: NodeJS.ProcessEnv, defaults: Partial<Options>): ParsedOptions;
  /** One of our own commands. */
  run(parsed: ParsedOptions): Promise<number>;
}

/** Starts the program as another system is started. */
export async function runToolset(toolset: Toolset, { parse, run }: ToolsetStart): Promise<number> {
  const { defaults, command, commands = {}, environment, refuse, version } = toolset.commandLine;
  const env = environment?.(process.env, process.cwd()) ?? process.env;
  const leave = (refusal: { message: string; exitCode: number }): number => {
    process.stderr.write(`${refusal.message}\n`);
    return refusal.exitCode;
  };
  try {
    const parsed = parse(env, defaults);
    if (parsed.extra.version && version !== undefined) {
      process.stdout.write(`${version}\n`);
      return 0;
    }
    const wantsHelp = parsed.extra.help || parsed.extra.version;
    const refusal = wantsHelp ? undefined : refuse?.({ options: parsed.options, words: parsed.words });
    if (refusal) return leave(refusal);
    const words = parsed.words.length === 0 && command ? [command] : parsed.words;
    const own = words[0] === undefined ? undefined : commands[words[0]];
    if (own && !wantsHelp) return await (await own())(parsed.options, toolset);
    return await run({ ...parsed, words });
  } catch (error) {
    const refusal = error instanceof Error ? refuse?.({ error }) : undefined;
    if (refusal) return leave(refusal);
    throw error;
  }
}
