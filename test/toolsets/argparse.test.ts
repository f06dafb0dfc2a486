/** Command lines that the originals refuse, recorded from them with 80 columns. */

import { describe, expect, test } from "vitest";
import { additions } from "../../src/commands/toolset.ts";
import { defaultOptions } from "../../src/options/options.ts";
import { readAsPython } from "../../src/toolsets/argparse.ts";
import { loadToolset } from "../../src/toolsets/index.ts";
import recorded from "../acceptance/data/command-lines.json" with { type: "json" };

type Name = keyof typeof recorded;

/** Parses like the program: the refusal, or the remaining arguments. */
async function read(name: Name, args: string[]) {
  const { commandLine, options } = await loadToolset(name);
  if (!commandLine.python) throw new Error(`${name} is no Python program`);
  const rest = readAsPython(commandLine.python, args, additions(options));
  if (!Array.isArray(rest)) return rest;
  const words = rest.filter((arg) => !arg.startsWith("-"));
  return commandLine.refuse?.({ options: defaultOptions(), words, args: rest }) ?? rest;
}

describe.each(Object.keys(recorded) as Name[])("--toolset %s", (name) => {
  const { usage, refused, ours } = recorded[name];

  test.each(refused as [string[], string][])("%j is refused as the original does", async (args, error) => {
    expect(await read(name, args)).toEqual({ message: [...usage, error].join("\n"), exitCode: 2 });
  });

  test.each(ours.map((args) => [args]))("%j is an addition of ours", async (args) => {
    expect(await read(name, args)).not.toMatchObject({ exitCode: 2 });
  });
});

describe("what the originals accept is written out", () => {
  test.each<[Name, string[], string[]]>([
    ["jupyter-interpreter-mcp", ["--jupyter-t", "t"], ["--jupyter-token=t"]],
    ["jupyter-interpreter-mcp", ["--jupyter-token", "-1"], ["--jupyter-token=-1"]],
    ["jupyter-interpreter-mcp", ["--jupyter-token", ""], ["--jupyter-token="]],
    ["jupyter-interpreter-mcp", ["--bogus", "--help", "--more"], ["--help"]],
    ["jupyter-interpreter-mcp", ["--vers"], ["--version"]],
    ["jupyter-interpreter-mcp@0.4", ["--session-ttl", "1.5"], ["--session-ttl=1.5"]],
    ["mcp-run-python", ["stdio", "--verb"], ["stdio", "--verbose"]],
    ["mcp-run-python", ["--", "stdio"], ["stdio"]],
  ])("%s %j", async (name, args, expected) => {
    const { commandLine, options } = await loadToolset(name);
    expect(commandLine.python && readAsPython(commandLine.python, args, additions(options))).toEqual(expected);
  });

  test("native options keep their values", async () => {
    const { commandLine, options } = await loadToolset("mcp-run-python");
    const args = ["--data-dir", "--odd", "--allow-net", "stdio", "--memory-mb=9", "--return-mode", "json"];
    expect(commandLine.python && readAsPython(commandLine.python, args, additions(options))).toEqual(args);
  });
});

test("a port of the environment is no reason to refuse stdio, one of the command line is", async () => {
  expect(await read("mcp-run-python", ["stdio"])).toEqual(["stdio"]);
  expect(await read("mcp-run-python", ["stdio", "--port", "1"])).toEqual({
    message: "Port is only supported for `streamable_http` modes",
    exitCode: 1,
  });
});
