import type { Options, OptionsOfToolset, ParsedOptions } from "../options/options.ts";
import { type OptionTable, rowsOf } from "../options/spec.ts";
import { table } from "../options/table.ts";
import { type Additions, readAsPython } from "../toolsets/argparse.ts";
import type { Toolset, ToolsetCommand, ToolsetDefinition } from "../toolsets/toolset.ts";

export interface ToolsetStart {
  args: string[];
  parse(args: string[], env: NodeJS.ProcessEnv, toolset: OptionsOfToolset): ParsedOptions;
  /** Runs a native command. */
  run(parsed: ParsedOptions, toolset: Toolset, definition: ToolsetDefinition): Promise<number>;
}

/** Starts the program with the command line of another system. */
export async function runToolset(definition: ToolsetDefinition, start: ToolsetStart): Promise<number> {
  const { commandLine, options: own } = definition;
  const { defaults, aliases, command, commands = {}, modes = {}, environment, settle, refuse, version } = commandLine;
  const env = environment?.(process.env, process.cwd()) ?? process.env;
  const leave = (refusal: { message: string; exitCode: number }): number => {
    process.stderr.write(`${refusal.message}\n`);
    return refusal.exitCode;
  };
  const args = commandLine.python ? readAsPython(commandLine.python, start.args, additions(own)) : start.args;
  if (!Array.isArray(args)) return leave(args);
  let options: Options | undefined;
  try {
    const parsed = start.parse(args, env, { defaults, table: own, ...(aliases && { aliases }) });
    if (settle) parsed.options = settle(parsed.options, parsed.own, parsed.given);
    options = parsed.options;
    if (parsed.extra.version && version !== undefined) {
      process.stdout.write(`${version}\n`);
      return 0;
    }
    const wantsHelp = parsed.extra.help || parsed.extra.version;
    const refusal = wantsHelp ? undefined : refuse?.({ ...parsed, args });
    if (refusal) return leave(refusal);
    const toolset = definition.create(parsed.own);
    const [word = command, ...rest] = parsed.words;
    const itsOwn = word === undefined ? undefined : commands[word];
    if (itsOwn && !wantsHelp) return await withEngine(parsed.options, toolset, itsOwn);
    const mode = word === undefined ? undefined : modes[word];
    const words = [mode?.command ?? word ?? [], rest].flat();
    return await start.run(
      { ...parsed, words, options: { ...parsed.options, ...mode?.settings } },
      toolset,
      definition,
    );
  } catch (error) {
    const refusal = error instanceof Error ? refuse?.({ error, options }) : undefined;
    if (refusal) return leave(refusal);
    throw error;
  }
}

/** Native commands that make sense with a toolset. */
const ourCommands = ["stdio", "serve", "doctor", "env", "packages", "clean", "help"];

export function additions(own: OptionTable): Additions {
  const takesValue = rowsOf({ ...table, ...own }).map(({ flag, placeholder, impliedValue }): [string, boolean] => [
    flag,
    placeholder !== "" && impliedValue === undefined,
  ]);
  return { options: new Map([...takesValue, ["--yes", false]]), words: ourCommands };
}

async function withEngine(options: Options, toolset: Toolset, command: ToolsetCommand): Promise<number> {
  const { createApp } = await import("../app.ts");
  const app = await createApp(options, { guest: toolset.guest });
  const stop = () => void app.dispose();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    return await command(app);
  } finally {
    await app.dispose();
  }
}
