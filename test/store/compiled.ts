import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Compiles sources and what they import to plain JavaScript, for child processes that run without Vitest. */
export function compile(sources: string[], outDir: string): void {
  mkdirSync(outDir, { recursive: true });
  const config = {
    extends: join(root, "tsconfig.build.json"),
    compilerOptions: { rootDir: join(root, "src"), outDir, declaration: false, noCheck: true, types: [] },
    include: [],
    files: sources.map((source) => join(root, "src", source)),
  };
  writeFileSync(join(outDir, "tsconfig.json"), JSON.stringify(config));
  writeFileSync(join(outDir, "package.json"), JSON.stringify({ type: "module" }));
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", join(outDir, "tsconfig.json")]);
}
