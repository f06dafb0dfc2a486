import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { helpText } from "../../src/commands/help.ts";
import { toolsetNames } from "../../src/options/table.ts";
import { loadToolset } from "../../src/toolsets/index.ts";

const root = join(import.meta.dirname, "../..");
const pages = [
  ...["README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md"],
  ...["docs", "docs/kernels"].flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `${folder}/${name}`),
  ),
];
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };

/** Flags of npm scripts and of other programs in the docs' commands. */
const otherFlags = [
  ...["--check", "--project", "--short"],
  ...["--add-mcp", "--header", "--manifest-path", "--transport"],
  ...["--memory", "--pids-limit", "--publish", "--tag", "--volume"],
];
const known = new Set([
  ...otherFlags,
  ...(await Promise.all(toolsetNames.map(loadToolset))).flatMap((toolset) => flagsIn(helpText(toolset))),
  ...flagsIn(helpText()),
]);

function flagsIn(text: string): string[] {
  return text.match(/(?<![\w-])--[a-z][a-z0-9-]+/g) ?? [];
}

describe.each(pages)("%s", (page) => {
  const text = readFileSync(join(root, page), "utf8");
  test("links to files that exist", () => {
    const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)].map(([, target = ""]) => target);
    expect(links.filter((target) => !existsSync(join(root, dirname(page), target)))).toEqual([]);
  });

  test("names scripts that exist", () => {
    const named = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name = ""]) => name);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  // The tutorial names files that its reader creates.
  if (page === "docs/extending.md") return;

  test("names paths that exist", () => {
    const named = [...text.matchAll(/`((?:src|test|scripts|docs|bench)\/[\w./-]+)`/g)].map(([, path = ""]) => path);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test("names options that exist", () => {
    expect([...new Set(flagsIn(text))].filter((flag) => !known.has(flag))).toEqual([]);
  });
});
