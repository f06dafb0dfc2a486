#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { CellwrightError } from "./errors.ts";
import type { Toolset } from "./mcp/toolset.ts";
import { findToolset, OptionError, type Options, type ParsedOptions, parseOptions } from "./options.ts";
import { version } from "./version.ts";

/** Words that may follow a command. */
const wordsAfter: Record<string, number> = { run: 1, packages: 1, env: 2 };

/** Options → command. Each command is imported when it is asked for: a client waits for the answer to `initialize`. */
async function main(args: string[]): Promise<number> {
  const toolsetName = findToolset(args, process.env);
  if (toolsetName === undefined) return run(parse(args, process.env), undefined);
  const toolset = await (await import("./tools/compat/index.ts")).loadToolset(toolsetName);
  return (await import("./commands/toolset.ts")).runToolset(toolset, {
    parse: (env, defaults) => parse(args, env, defaults),
    run: (parsed) => run(parsed, toolset),
  });
}

function parse(args: string[], env: NodeJS.ProcessEnv, defaults?: Partial<Options>): ParsedOptions {
  return parseOptions(args, env, (path) => readFileSync(path, "utf8"), defaults);
}

async function run({ options, words, extra }: ParsedOptions, toolset: Toolset | undefined): Promise<number> {
  const [command = "stdio", ...rest] = words;
  if (extra.version) {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  if (extra.help || command === "help") {
    process.stdout.write((await import("./commands/help.ts")).helpText());
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
      throw new OptionError(`There is no command \`${command}\`. Run \`cellwright --help\` for the commands.`);
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
// What has to end, has ended: nothing else may keep the program alive, once its last words are out.
process.stdout.write("", () => process.exit());
