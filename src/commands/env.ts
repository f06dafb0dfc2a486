import { openEnvironments } from "../app.ts";
import { CellwrightError } from "../errors.ts";
import { OptionError, type Options } from "../options/options.ts";
import { showBar } from "./bar.ts";

/** Creates, lists and removes environments. Returns the exit code. */
export async function env(options: Options, [action, name, ...rest]: string[]): Promise<number> {
  if (rest.length > 0) throw new OptionError(`Unexpected argument \`${rest[0]}\`.`);
  if (action === "create") return create(options, name);
  if (action === "remove") return remove(options, name);
  if (action === "list" && name === undefined) return list(options);
  throw new OptionError("`cellwright env` needs `create [NAME]`, `list` or `remove [NAME]`.");
}

async function create(options: Options, name: string | undefined): Promise<number> {
  const environments = await openEnvironments(options);
  const stop = new AbortController();
  const interrupt = () =>
    stop.abort(new CellwrightError("env_error", "Interrupted.", { hint: "The unfinished environment is removed." }));
  process.once("SIGINT", interrupt).once("SIGTERM", interrupt);
  const bar = showBar(process.stderr);
  const began = performance.now();
  try {
    const { packages } = options;
    const { signal } = stop;
    const { folder, version, installed } = await environments.create(name, { packages, signal, progress: bar.show });
    bar.end();
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    const done =
      installed.length > 0
        ? `is ready after ${seconds} s: Python ${version}, ${installed.join(", ")}`
        : "exists already";
    process.stdout.write(`The environment \`${name ?? "managed"}\` ${done}.\n${folder}\n`);
    return 0;
  } finally {
    bar.end();
  }
}

async function list(options: Options): Promise<number> {
  const environments = await (await openEnvironments(options)).list(new AbortController().signal);
  for (const { name, kind, path, python = "", packages, obstacle, isDefault } of environments) {
    const mark = obstacle ? "not ready" : `Python ${python}`;
    process.stdout.write(`${isDefault ? "*" : " "} ${name.padEnd(20)} ${kind.padEnd(11)} ${mark.padEnd(15)} ${path}\n`);
    if (obstacle ?? packages.length > 0) process.stdout.write(`    ${obstacle ?? packages.join(", ")}\n`);
  }
  return 0;
}

async function remove(options: Options, name: string | undefined): Promise<number> {
  const folder = await (await openEnvironments(options)).remove(name);
  process.stdout.write(`Removed ${folder}.\n`);
  return 0;
}
