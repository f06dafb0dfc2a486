import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { KernelProvider } from "../../src/kernels/kernel.ts";
import type { Tool, ToolContext } from "../../src/tools/tool.ts";
import type { ToolsetDefinition } from "../../src/toolsets/toolset.ts";
import { startEngine } from "../support/engine.ts";

const root = join(import.meta.dirname, "../..");
/** Inside the repository, so that packages are found and sources are compiled. */
const folder = join(root, ".cache/extending");

/** The code blocks of the page, by the file that each is said to be. */
function blocks(): Map<string, string> {
  const page = readFileSync(join(root, "docs/extending.md"), "utf8");
  const found = page.matchAll(/^`(src\/[^`]+)`\n\n```ts\n(.*?)^```$/gms);
  return new Map([...found].map(([, file = "", code = ""]) => [file, code]));
}

/** Written to another folder, with imports of the real sources. */
function write(file: string, code: string): void {
  const target = join(folder, file);
  const linked = code.replace(/from "(\.[^"]+)"/g, (_, specifier: string) => {
    const imported = resolve(root, dirname(file), specifier);
    return `from "${relative(dirname(target), imported)}"`;
  });
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, linked);
}

describe("docs/extending.md", () => {
  const load = (file: string) => import(pathToFileURL(join(folder, file)).href);

  beforeAll(() => {
    for (const [file, code] of blocks()) write(file, code);
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ extends: "../../tsconfig.json", include: ["src"], compilerOptions: { noEmit: true } }),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has a backend, a tool and a toolset, which compile", () => {
    expect([...blocks().keys()]).toEqual([
      "src/kernels/calculator/provider.ts",
      "src/tools/count-cells.ts",
      "src/toolsets/echo/toolset.ts",
    ]);
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    expect(() => execFileSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" })).not.toThrow();
  });

  test("the backend runs cells in a session, and the tool counts them", async () => {
    const { createCalculatorProvider } = await load("src/kernels/calculator/provider.ts");
    const provider: KernelProvider = createCalculatorProvider();
    const { sessions, store } = await startEngine({ provider });
    const session = await sessions.create("ann");
    expect(await session.execute("a = 2").finished).toMatchObject({ status: "ok" });
    const sum = await session.execute("a + 3").finished;
    expect(sum.outputs).toEqual([{ type: "result", data: { "text/plain": "5" } }]);
    expect(await session.execute("a + b").finished).toMatchObject({ status: "error" });
    const [countCells]: Tool[] = (await load("src/tools/count-cells.ts")).default;
    const context = { sessions, store, owner: "ann" } as ToolContext;
    expect(await countCells?.run({ session_id: session.id }, context)).toMatchObject({ text: "3 cells, 1 failed" });
  });

  test("the toolset has a tool and an option of its own", async () => {
    const toolset: ToolsetDefinition = (await load("src/toolsets/echo/toolset.ts")).toolset;
    const [echo] = toolset.create({ shout: true }).tools;
    expect(await echo?.run({ text: "hi" }, {} as ToolContext)).toMatchObject({ text: "HI" });
  });
});
