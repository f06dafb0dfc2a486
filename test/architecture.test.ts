import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");

/**
 * The parts of src, from the top down, and which parts each may import besides itself. A path ending in `/` is a folder;
 * a file belongs to the part with the most specific entry. A part that no other may import is not listed by others.
 */
const parts: Record<string, { files: string[]; imports: string[] }> = {
  program: {
    files: ["main.ts", "index.ts", "code-sandbox.ts", "commands/"],
    imports: [
      ...["app", "mcp", "http", "toolsets", "tools", "text", "engine", "isolation", "process"],
      ...["contracts", "options", "words"],
    ],
  },
  app: {
    files: ["app.ts"],
    imports: [
      ...["http", "render", "browser", "engine", "providers", "stores", "workspaces", "isolation", "process"],
      ...["contracts", "options", "words"],
    ],
  },

  // The interfaces to clients. Tools and toolsets know nothing of MCP, and the engine nothing of either.
  mcp: {
    files: ["mcp/"],
    imports: ["http", "toolsets", "tools", "render", "text", "browser", "engine", "contracts", "options", "words"],
  },
  http: { files: ["http/"], imports: ["sandbox", "tools", "text", "engine", "contracts", "options", "words"] },
  render: { files: ["render/"], imports: ["tools", "text", "browser", "engine", "contracts", "options", "words"] },
  toolsets: {
    files: ["toolsets/"],
    imports: ["sandbox", "tools", "text", "engine", "contracts", "options", "words"],
  },
  tools: { files: ["tools/"], imports: ["text", "engine", "reach", "paths", "contracts", "options", "words"] },
  /** The protocol of `/jupyter_sandbox`, for its server and its clients. */
  sandbox: { files: ["sandbox/"], imports: ["words"] },
  /** Texts for models: truncated, cleaned, with readable amounts. */
  text: { files: ["render/text/"], imports: ["words"] },
  browser: { files: ["browser/"], imports: ["isolation", "reach", "process", "words"] },
  engine: { files: ["engine/"], imports: ["process", "contracts", "options", "words"] },

  // Implementations of the contracts. Only `app` and `providers` choose among them.
  providers: {
    files: ["kernels/providers.ts", "kernels/combined.ts"],
    imports: ["backends", "isolation", "contracts", "options", "words"],
  },
  backends: {
    files: ["kernels/*/"],
    imports: [
      ...["common", "protocol", "python", "packages", "isolation", "reach", "process", "paths", "sandbox"],
      ...["contracts", "options", "words"],
    ],
  },
  /** Jupyter messaging, for local and remote kernels. */
  protocol: { files: ["kernels/protocol/"], imports: ["common", "process", "contracts", "words"] },
  /** Shared by backends. */
  common: {
    files: ["cell-events.ts", "checked-event.ts", "starting.ts", "balancer.ts", "shell/"].map(
      (name) => `kernels/${name}`,
    ),
    imports: ["contracts", "words"],
  },
  python: { files: ["kernels/python/"], imports: [] },
  packages: { files: ["packages/"], imports: ["reach", "process", "words"] },
  isolation: { files: ["isolation/"], imports: ["reach", "process", "contracts", "options", "words"] },
  stores: { files: ["store/"], imports: ["process", "contracts", "options", "words"] },
  workspaces: { files: ["workspace/"], imports: ["folders", "paths", "reach", "contracts", "options", "words"] },
  /** Shared by local and remote workspaces. */
  paths: {
    files: ["path", "mime", "entry", "compare", "refusals"].map((name) => `workspace/${name}.ts`),
    imports: ["contracts", "words"],
  },

  process: { files: ["process/"], imports: ["folders", "reach", "words"] },
  /** Folders that are opened without following a symlink, and what is done in them. */
  folders: { files: ["folders/"], imports: ["words"] },
  /** Which files code can change, and which names host programs obey. */
  reach: { files: ["reach/"], imports: ["words"] },
  options: { files: ["options/"], imports: ["words"] },
  contracts: { files: ["kernels/kernel.ts", "store/store.ts", "workspace/workspace.ts"], imports: ["words"] },
  words: {
    files: [
      "execution",
      "errors",
      "json-text",
      "log",
      "nearest",
      "own-token",
      "semaphore",
      "system-error",
      "version",
      "within",
    ].map((name) => `${name}.ts`),
    imports: [],
  },
};

/** A larger folder contains more than one idea. */
const WIDEST_FOLDER = 16;

/** Packages that only these folders may import. */
const packageOwners = { "@modelcontextprotocol/": "mcp/" };

/** Too slow or too large to load at startup: no module that is loaded then may import them. */
const heavyPackages = ["deno", "pyodide", "fast-png", "jpeg-js"];
const entryPoints = ["main.ts", "index.ts"];

const nameless = ["utils", "common", "core", "types", "helpers"];

describe("the sources", () => {
  const sources = readSources();

  test("are found", () => {
    expect(sources.size).toBeGreaterThan(5);
  });
  test("import in one direction", () => {
    expect(wrongImports(sources)).toEqual([]);
  });
  test("have no circular imports", () => {
    expect(circles(sources)).toEqual([]);
  });
  test("load heavy packages only when they are needed", () => {
    expect(eagerHeavyImports(sources)).toEqual([]);
  });
  test("have no folder without a meaning", () => {
    expect(namelessFolders(sources)).toEqual([]);
  });
  test("have no folder that is too wide to be one idea", () => {
    expect(wideFolders(namesBelow("src"))).toEqual([]);
  });
  test("are what the table of parts speaks of", () => {
    const entries = Object.values(parts).flatMap(({ files }) => files);
    expect(entries.filter((entry) => ![...sources.keys()].some((path) => matches(path, entry)))).toEqual([]);
  });
});

describe("the package", () => {
  const packageJson = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

  test("names exact versions of what it depends on", () => {
    expect(packageJson.dependencies).toMatchObject({ pyodide: expect.any(String), deno: expect.any(String) });
    const all = Object.entries({ ...packageJson.dependencies, ...packageJson.devDependencies });
    expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(String(version)))).toEqual([]);
  });
  test("locks versions without saying where they were fetched from", () => {
    const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
    expect(Object.keys(packages).filter((path) => packages[path].resolved !== undefined)).toEqual([]);
  });
});

describe("a wrong import is reported", () => {
  test.each([
    ["engine → render", "engine/run/run.ts", `import { render } from "../../render/reply.ts";`],
    ["engine → toolset", "engine/run/run.ts", `import { shown } from "../../toolsets/shown.ts";`],
    ["engine → app", "engine/run/run.ts", `export { app } from "../../app.ts";`],
    ["engine → store", "engine/run/run.ts", `import { DiskStore } from "../../store/disk.ts";`],
    ["engine → inside of a workspace", "engine/run/run.ts", `import { open } from "../../workspace/local/open.ts";`],
    ["tool → mcp", "tools/execute.ts", `import type { Server } from "../mcp/server.ts";`],
    ["tool → render", "tools/execute.ts", `import { render } from "../render/reply.ts";`],
    ["tool → toolset", "tools/execute.ts", `import type { Toolset } from "../toolsets/toolset.ts";`],
    ["toolset → mcp", "toolsets/index.ts", `import type { Server } from "../mcp/server.ts";`],
    ["render → mcp", "render/reply.ts", `import type { Server } from "../mcp/server.ts";`],
    ["tool → store", "tools/sessions.ts", `import { DiskStore } from "../store/disk.ts";`],
    ["mcp → app", "mcp/server.ts", `import type { App } from "../app.ts";`],
    ["contract → options", "kernels/kernel.ts", `import type { Options } from "../options/options.ts";`],
    ["word → contract", "errors.ts", `import type {\n  Kernel,\n} from './kernels/kernel.ts';`],
    ["app → backend", "app.ts", `const m = await import("./kernels/wasm/provider.ts");`],
    ["backend → backend", "kernels/local/start.ts", `import "../wasm/kernel.ts";`],
    ["provider → backend, not lazily", "kernels/providers.ts", `import { wasm } from "./wasm/provider.ts";`],
    ["backend → engine", "kernels/wasm/kernel.ts", `import { Run } from "../../engine/run/run.ts";`],
    ["SDK outside mcp", "tools/execute.ts", `import { McpServer } from "@modelcontextprotocol/server";`],
    ["SDK outside mcp, lazily", "http/app.ts", `const sdk = await import(\n  "@modelcontextprotocol/node"\n);`],
    ["a file of no part", "kitchen-sink.ts", "export {};"],
  ])("%s", (_, path, source) => {
    expect(wrongImports(new Map([[path, source]]))).toHaveLength(1);
  });

  test("but not a right one", () => {
    const sources = new Map([
      ["main.ts", `import { createApp } from "./app.ts";\nimport process from "node:process";`],
      ["app.ts", `import { DiskStore } from "./store/disk.ts";\nimport { providers } from "./kernels/providers.ts";`],
      ["mcp/server.ts", `import { McpServer } from "@modelcontextprotocol/server";`],
      ["kernels/providers.ts", `export const wasm = () => import("./wasm/provider.ts");`],
      ["kernels/wasm/provider.ts", `import { jail } from "../../isolation/jail.ts";\nimport "./deno/a.ts";`],
      ["store/disk.ts", `import type { Store } from "./store.ts";\nimport { journal } from "./journal.ts";`],
      ["engine/run/run.ts", `// import { app } from "../app.ts";\n/**\n * import("../app.ts")\n */`],
    ]);
    expect(wrongImports(sources)).toEqual([]);
  });

  test("circles, through types too, but not when the way back is lazy", () => {
    const a = `import type { B } from "./b.ts";`;
    expect(circles(sourcesOf({ "a.ts": a, "b.ts": `export * from "./c.ts";`, "c.ts": `import "./a.ts";` }))).toEqual([
      "a.ts → b.ts → c.ts → a.ts",
    ]);
    expect(circles(sourcesOf({ "a.ts": a, "b.ts": `await import("./a.ts");` }))).toEqual([]);
  });

  test("heavy packages that an entry point reaches, but not their types and not lazily", () => {
    const heavy = `import { decode } from "fast-png";`;
    const main = `import "./render.ts";`;
    expect(eagerHeavyImports(sourcesOf({ "main.ts": main, "render.ts": heavy }))).toEqual(["render.ts → fast-png"]);
    const harmless = `import type { PyodideAPI } from "pyodide";\nimport("deno/x");\nimport("./png.ts");`;
    expect(eagerHeavyImports(sourcesOf({ "main.ts": main, "render.ts": harmless, "png.ts": heavy }))).toEqual([]);
  });

  test("folders without a meaning", () => {
    expect(namelessFolders(sourcesOf({ "mcp/utils/text.ts": "", "engine/utils.ts": "" }))).toEqual([
      "mcp/utils/text.ts",
    ]);
  });

  test("folders that are too wide", () => {
    const wide = Array.from({ length: WIDEST_FOLDER + 1 }, (_, index) => `mcp/${index}.ts`);
    expect(wideFolders([...wide, "tools/tool.ts"])).toEqual([`mcp: ${WIDEST_FOLDER + 1} files`]);
  });
});

interface Import {
  specifier: string;
  kind: "value" | "type" | "lazy";
}

type Sources = Map<string, string>;

function wrongImports(sources: Sources): string[] {
  return [...sources].flatMap(([path, source]) => {
    const own = partOf(path);
    if (!own) return [`${path} belongs to no part: add it to the table in test/architecture.test.ts`];
    return importsOf(source).flatMap((found) => wrong(path, own, found) ?? []);
  });
}

function wrong(path: string, own: string, { specifier, kind }: Import): string | undefined {
  for (const [prefix, owner] of Object.entries(packageOwners)) {
    if (specifier.startsWith(prefix) && !path.startsWith(owner)) return `${path} → ${specifier}: only ${owner} may`;
  }
  if (!specifier.startsWith(".")) return undefined;
  const target = resolve(path, specifier);
  const other = partOf(target);
  if (!other) return `${path} → ${target}, which belongs to no part`;
  if (other === "backends") {
    if (own === "backends" && backendOf(path) === backendOf(target)) return undefined;
    return own === "providers" && kind === "lazy"
      ? undefined
      : `${path} → ${target}: only kernels/providers.ts may, by import()`;
  }
  const allowed = own === other || parts[own]?.imports.includes(other);
  return allowed ? undefined : `${path} → ${target}: ${own} may not import ${other}`;
}

/** The part with the most specific entry, which is the longest that matches. */
function partOf(path: string): string | undefined {
  const fits = Object.entries(parts).flatMap(([part, { files }]) =>
    files.filter((entry) => matches(path, entry)).map((entry) => ({ part, entry })),
  );
  return fits.sort((a, b) => b.entry.length - a.entry.length)[0]?.part;
}

function matches(path: string, entry: string): boolean {
  const pattern = entry.replaceAll(".", "\\.").replaceAll("*", "[^/]+");
  return new RegExp(entry.endsWith("/") ? `^${pattern}` : `^${pattern}$`).test(path);
}

function backendOf(path: string): string | undefined {
  return path.split("/")[1];
}

function circles(sources: Sources): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: string[]): void => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(" → "));
    if (way.includes(path) || done.has(path)) return;
    for (const next of filesImportedBy(path, sources, ["value", "type"])) visit(next, [...way, path]);
    done.add(path);
  };
  for (const path of sources.keys()) visit(path, []);
  return found;
}

function eagerHeavyImports(sources: Sources): string[] {
  const reached = new Set<string>();
  const reach = (path: string): void => {
    if (reached.has(path) || !sources.has(path)) return;
    reached.add(path);
    for (const next of filesImportedBy(path, sources, ["value"])) reach(next);
  };
  for (const path of entryPoints) reach(path);
  return [...reached].flatMap((path) =>
    importsOf(sources.get(path) ?? "")
      .filter(({ specifier, kind }) => kind === "value" && heavyPackages.includes(specifier.split("/")[0] ?? ""))
      .map(({ specifier }) => `${path} → ${specifier}`),
  );
}

function namelessFolders(sources: Sources): string[] {
  return [...sources.keys()].filter((path) =>
    path
      .split("/")
      .slice(0, -1)
      .some((folder) => nameless.includes(folder)),
  );
}

function wideFolders(paths: string[]): string[] {
  const widths = new Map<string, number>();
  for (const folder of paths.map(dirname)) widths.set(folder, (widths.get(folder) ?? 0) + 1);
  return [...widths].filter(([, files]) => files > WIDEST_FOLDER).map(([folder, files]) => `${folder}: ${files} files`);
}

function filesImportedBy(path: string, sources: Sources, kinds: Import["kind"][]): string[] {
  return importsOf(sources.get(path) ?? "")
    .filter(({ specifier, kind }) => specifier.startsWith(".") && kinds.includes(kind))
    .map(({ specifier }) => resolve(path, specifier));
}

/** Finds imports by syntax: at the start of a line, as the formatter leaves them, or `import("…")` anywhere. */
function importsOf(source: string): Import[] {
  const code = withoutComments(source);
  const found: Import[] = [];
  for (const match of code.matchAll(/^[ \t]*(?:import|export)\b(?:([^"'`;()]*?)\bfrom\b)?\s*(["'])([^"'\n]+)\2/gm)) {
    found.push({ specifier: match[3] ?? "", kind: /^\s*type\b/.test(match[1] ?? "") ? "type" : "value" });
  }
  for (const match of code.matchAll(/\bimport\(\s*(["'`])([^"'`\n]+)\1/g)) {
    found.push({ specifier: match[2] ?? "", kind: "lazy" });
  }
  return found;
}

/** Only lines that are comments as a whole: a smarter parser could mistake code for a comment and miss an import. */
function withoutComments(source: string): string {
  return source.replace(/^[ \t]*(?:\/\/|\/?\*).*$/gm, "");
}

function resolve(from: string, specifier: string): string {
  return join(dirname(from), specifier).replace(/\.js$/, ".ts");
}

function readSources(): Sources {
  const paths = namesBelow("src").filter((name) => /\.[mc]?[tj]s$/.test(name));
  return new Map(paths.map((path) => [path, readFileSync(join(root, "src", path), "utf8")]));
}

function namesBelow(folder: string): string[] {
  const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes("__pycache__"));
  return files.map((entry) => join(entry.parentPath, entry.name).slice(join(root, folder).length + 1));
}

function sourcesOf(files: Record<string, string>): Sources {
  return new Map(Object.entries(files));
}
