import { describe, expect, test } from "vitest";
import { helpText } from "../../src/commands/help.ts";
import { defaultOptions, optionTable, parseOptions } from "../../src/options/options.ts";

const noFile = (path: string): string => {
  throw new Error(`no such file ${path}`);
};
const parse = (args: string[], env = {}, readFile = noFile) => parseOptions(args, env, readFile);

describe("settings", () => {
  test("a flag beats the environment, which beats a file, which beats the default", () => {
    const file = () => "CELLWRIGHT_TIMEOUT=10\nCELLWRIGHT_WARM=3\nexport CELLWRIGHT_KEEP_DAYS='2'\n# no\n";
    const env = { CELLWRIGHT_TIMEOUT: "20", CELLWRIGHT_WARM: "4" };
    const { options } = parse(["--timeout", "30", "--env-file", "x"], env, file);
    expect(options).toMatchObject({ timeout: 30_000, warm: 4, keepDays: 2, port: defaultOptions().port });
  });

  test.each([
    [
      ["--timeout", "soon"],
      "--timeout `soon`: expected seconds, or a time such as `90s`, `30m` or `2h`, up to 24 days",
    ],
    [["--warm", "-1"], "--warm"],
    [["--warm", "65"], "--warm `65`: expected a whole number from 0 to 64"],
    [["--jail", "docker"], "--jail `docker`: expected one of auto, namespaces, landlock, none"],
    [["--caps", "core,shell"], "--caps `core,shell`: expected one of core, files, inspect"],
    [["--frobnicate"], "Unknown option '--frobnicate'. Run `cellwright --help` for the options."],
    [["--env-file", "gone"], "Cannot read --env-file `gone`: no such file gone"],
  ])("%j is refused with a sentence", (args, message) => {
    expect(() => parse(args)).toThrow(message);
  });

  test("a file cannot set what decides about walls", () => {
    for (const row of optionTable.filter((candidate) => candidate.trusted)) {
      expect(() => parse(["--env-file", "x"], {}, () => `${row.env}=none\n`)).toThrow(
        `${row.env} cannot be set in an --env-file`,
      );
    }
    expect(optionTable.filter((row) => row.trusted).map((row) => row.flag)).toEqual(
      expect.arrayContaining(["--jail", "--insecure", "--files-dir", "--allowed-hosts"]),
    );
  });

  test("a secret is never repeated in a message", () => {
    expect(() => parse(["--auth-token", "s3cret,"])).toThrow(/^(?!.*s3cret)/);
  });

  test("a repeatable option collects its values", () => {
    const { options } = parse(["--auth-token", "ann=a", "--auth-token", "bob=b"]);
    expect(options.authToken).toEqual(["ann=a", "bob=b"]);
  });

  test("times take units", () => {
    expect(parse(["--session-ttl", "90m"]).options.sessionTtl).toBe(90 * 60_000);
    expect(parse(["--session-ttl", "0"]).options.sessionTtl).toBe(0);
  });

  test("help is wrapped, and loses no word", () => {
    const lines = helpText().split("\n");
    expect(lines.filter((line) => line.length > 120 && / \S+ \S/.test(line.trim()))).toEqual([]);
    const words = helpText().replace(/\s+/g, " ");
    for (const { help } of optionTable) expect(words).toContain(help.replace(/\s+/g, " "));
  });
  test("help names every option", () => {
    for (const row of optionTable) expect(helpText()).toContain(row.flag);
  });
});
