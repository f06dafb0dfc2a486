// Checks all Python files with ruff (lint, format) and pyright (types). Both come from npm and do not use the machine's
// Python, so that the result is the same everywhere.
//
//   node scripts/check-python.mjs [--write]     also formats and sorts imports
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { PositionEncoding, Workspace } from "@astral-sh/ruff-wasm-nodejs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folders = ["bench", "scripts", "src", "test"];

const ruffSettings = {
  "line-length": 120,
  "target-version": "py39",
  lint: {
    select: ["E", "F", "W", "I", "B", "C4", "SIM", "UP", "PLE", "RUF100"],
    ignore: [
      // `"/proc/%d" % pid` accepts only numbers, and lines of bash contain many braces.
      "UP031",
      // `try` … `except` … `pass` needs no import in a process that was just forked.
      "SIM105",
      // A list of thirty words is easier to read as one string with `split`.
      "SIM905",
    ],
    isort: { "combine-as-imports": true, "known-first-party": ["_cellwright", "_cellwright_jail"] },
  },
};

/** One per Python version that code runs on: pyright checks against one version at a time. */
const pyrightConfigs = ["pyrightconfig.json", "pyrightconfig.wasm.json"];

/** Folders that become packages only at run time. */
const packages = {
  "kernel/_cellwright": ["prelude", "kernel", "output", "commands", "zygote"].map(
    (name) => `src/kernels/python/${name}`,
  ),
  "kernel/_cellwright_jail": ["src/isolation/python"],
  "wasm/_cellwright": ["prelude", "wasm"].map((name) => `src/kernels/python/${name}`),
};

const isWriting = process.argv.includes("--write");
if (!isWriting) linkPackages();
const typed = Promise.all(isWriting ? [] : pyrightConfigs.map(pyright));
const complaints = [...ruff(), ...(await typed).flat()];
for (const complaint of complaints) console.log(complaint);
process.exitCode = complaints.length > 0 ? 1 : 0;

function ruff() {
  const workspace = new Workspace(ruffSettings, PositionEncoding.Utf16);
  return folders.flatMap(pythonFilesBelow).flatMap((file) => {
    const source = readFileSync(join(root, file), "utf8");
    let found = workspace.check(source);
    const formatted = format(workspace, source, found);
    const isFormatted = formatted === source;
    if (isWriting && !isFormatted) {
      writeFileSync(join(root, file), formatted);
      found = workspace.check(formatted);
    }
    return [
      ...found.map(({ code, message, start_location: at }) => `${file}:${at.row}:${at.column} ${code} ${message}`),
      ...(isWriting || isFormatted ? [] : [`${file}:1:1 format Run \`npm run format\`.`]),
    ];
  });
}

/** A file with syntax errors stays unchanged and is reported. */
function format(workspace, source, complaints) {
  try {
    return workspace.format(withSortedImports(source, complaints));
  } catch {
    return source;
  }
}

function withSortedImports(source, complaints) {
  const edits = complaints.flatMap(({ code, fix }) => (code === "I001" && fix ? fix.edits : []));
  const starts = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)];
  const at = ({ row, column }) => starts[row - 1] + column - 1;
  return edits.reduceRight(
    (text, { content, location, end_location: end }) =>
      text.slice(0, at(location)) + (content ?? "") + text.slice(at(end)),
    source,
  );
}

async function pyright(config) {
  const program = createRequire(import.meta.url).resolve("pyright");
  const child = spawn(process.execPath, [program, "--project", join(root, config), "--outputjson"], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece) => {
    text += piece;
  });
  const [status] = await once(child, "close");
  // 1: errors were found. Higher: pyright itself failed.
  if (status !== 0 && status !== 1) return [`${config}:1:1 pyright ended with ${status}: ${text}`];
  return JSON.parse(text).generalDiagnostics.map(({ file, range: { start }, rule, message }) => {
    return `${relative(root, file)}:${start.line + 1}:${start.character + 1} ${rule ?? "syntax"} ${message}`;
  });
}

/**
 * Symlinks to the files, one folder per package, and an empty `site-packages`: without it pyright would use the packages
 * of the Python on the PATH.
 */
function linkPackages() {
  const place = join(root, ".cache/check-python");
  mkdirSync(join(place, "lib/site-packages"), { recursive: true });
  for (const [name, sources] of Object.entries(packages)) {
    const folder = join(place, name);
    mkdirSync(folder, { recursive: true });
    for (const source of sources.map((source) => join(root, source)))
      for (const entry of readdirSync(source).filter((entry) => entry !== "__pycache__"))
        link(relative(folder, join(source, entry)), join(folder, entry));
  }
}

/** A correct link stays: a concurrent check may be reading it. */
function link(target, path) {
  try {
    symlinkSync(target, path);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    if (readlinkSync(path) === target) return;
    rmSync(path);
    symlinkSync(target, path);
  }
}

function pythonFilesBelow(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return pythonFilesBelow(path);
    return entry.name.endsWith(".py") ? [path] : [];
  });
}
