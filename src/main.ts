#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { CellwrightError } from "./errors.ts";
import {
  findToolset,
  OptionError,
  type OptionsOfToolset,
  type ParsedOptions,
  parseOptions,
} from "./options/options.ts";
import type { Toolset, ToolsetDefinition } from "./toolsets/toolset.ts";
import { version } from "./version.ts";

/** Number of positional arguments that a command accepts. */
const wordsAfter: Record<string, number> = { run: 1, packages: 1, env: 2 };

/** Options → command. Commands are imported lazily: a client is waiting for the answer to `initialize`. */
async function main(args: string[]): Promise<number> {
  const toolsetName = findToolset(args, process.env);
  if (toolsetName === undefined) return run(parse(args, process.env), undefined);
  const definition = await (await import("./toolsets/index.ts")).loadToolset(toolsetName);
  return (await import("./commands/toolset.ts")).runToolset(definition, {
    args,
    parse,
    run,
  });
}

function parse(args: string[], env: NodeJS.ProcessEnv, toolset?: OptionsOfToolset): ParsedOptions {
  return parseOptions(args, env, (path) => readFileSync(path, "utf8"), toolset);
}

async function run(
  { options, words, extra }: ParsedOptions,
  toolset: Toolset | undefined,
  definition?: ToolsetDefinition,
): Promise<number> {
  const [command = "stdio", ...rest] = words;
  if (extra.version) {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  if (extra.help || command === "help") {
    process.stdout.write((await import("./commands/help.ts")).helpText(definition));
    return 0;
  }
  if (rest.length > (wordsAfter[command] ?? 0)) throw new OptionError(`Unexpected argument \`${rest.at(-1)}\`.`);
  switch (command) {
    case "stdio":
      return (await import("./commands/stdio.ts")).stdio(options, toolset);
    case "serve":
      return (await import("./commands/serve.ts")).serve(options, toolset);
    case "pool":
      return (await import("./commands/pool.ts")).pool(options, {
        ports: extra.ports as string | undefined,
        args: process.argv.slice(2),
      });
    case "run":
      return (await import("./commands/run.ts")).run(options, {
        file: rest[0],
        code: extra.code as string | undefined,
      });
    case "doctor":
      return (await import("./commands/doctor.ts")).doctor(options);
    case "packages":
      return (await import("./commands/packages.ts")).packages(options, rest[0]);
    case "env":
      return (await import("./commands/env.ts")).env(options, rest);
    case "clean":
      return (await import("./commands/clean.ts")).clean(options, { yes: extra.yes === true });
    default:
      throw new OptionError(`Unknown command \`${command}\`. Run \`cellwright --help\` for a list.`);
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const expected = error instanceof OptionError || error instanceof CellwrightError;
  const hint = error instanceof CellwrightError ? ` ${error.hint}` : "";
  process.stderr.write(`cellwright: ${expected ? error.message + hint : ((error as Error).stack ?? error)}\n`);
  process.exitCode = error instanceof OptionError ? 2 : 1;
}
// Everything is disposed: exit once stdout is flushed, whatever handles are still open.
process.stdout.write("", () => process.exit());
