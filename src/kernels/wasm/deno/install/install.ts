/**
 * The installer: builds the files of an image. `install <pyodide folder> <host folder> <site folder> load|save
 * <snapshot file>`. Runs Python and micropip, without network access and without running a package's code: it requests
 * downloads and gets them as files.
 */
import { mkdirSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { deno } from "../deno.ts";
import { LineSplitter } from "../lines.ts";
import { growMemoryFor } from "../memory.ts";
import { loadPyodide, type Pyodide } from "../pyodide.ts";
import type { InstallAnswer } from "./frames.ts";

const STDOUT = 1;
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** Slow imports that go into the snapshot. Standard library only: packages differ from one installation to the next. */
const librariesOfMicropip = [
  "asyncio",
  "csv",
  "email.parser",
  "hashlib",
  "html.parser",
  "importlib.metadata",
  "json",
  "logging",
  "platform",
  "subprocess",
  "sysconfig",
  "urllib.parse",
  "zipfile",
];

const [pyodideDir = "", hostDir = "", siteDir = "", snapshotUse = "", snapshotFile = ""] = deno.args;
/** Python's open questions, by id; the answer is JSON. */
const waiting = new Map<number, (answer: string) => void>();

/** The functions that Python can call. */
const host = {
  /** Sends an `InstallReport`, as JSON. */
  report(report: string): void {
    const bytes = new TextEncoder().encode(`${report}\n`);
    for (let at = 0; at < bytes.length; ) at += writeSync(STDOUT, bytes, at);
  },
  answerTo: (id: number) => new Promise<string>((resolve) => waiting.set(id, resolve)),
  read: (path: string) => new Uint8Array(readFileSync(path)),
  mkdir(path: string): void {
    mkdirSync(`${siteDir}/${path}`, { recursive: true });
  },
  write(path: string, bytes: Uint8Array): void {
    writeFileSync(`${siteDir}/${path}`, bytes);
  },
};

void listen();
await install();
deno.exit();

async function listen(): Promise<void> {
  const splitter = new LineSplitter(MAX_LINE_CHARS);
  for await (const chunk of deno.stdin.readable) {
    for (const line of splitter.push(chunk)) {
      const { id, answer }: InstallAnswer = JSON.parse(line);
      waiting.get(id)?.(JSON.stringify(answer));
    }
  }
  // The server is gone.
  deno.exit(1);
}

async function install(): Promise<void> {
  const python = await startPython();
  const toStderr = { write: (bytes: Uint8Array) => writeSync(2, bytes) };
  python.setStdout(toStderr);
  python.setStderr(toStderr);
  for (const [at, root] of [
    ["/installer", hostDir],
    ["/site", siteDir],
  ] as const) {
    python.FS.mkdirTree(at);
    python.FS.mount(python.FS.filesystems.NODEFS, { root }, at);
  }
  // Last on the path, because our module names are common words.
  python.runPython("import sys; sys.path.append('/installer')");
  const { run } = python.pyimport("install") as { run(calls: typeof host): Promise<void> };
  await run(host);
}

/** Restoring the snapshot of an earlier installer takes a tenth of the time. */
async function startPython(): Promise<Pyodide> {
  const env = { HOME: "/home/user" };
  if (snapshotUse === "load") {
    const snapshot = deno.readFileSync(snapshotFile);
    growMemoryFor(snapshot);
    return loadPyodide(pyodideDir, { env, _loadSnapshot: snapshot });
  }
  const python = await loadPyodide(pyodideDir, { env, _makeSnapshot: true });
  python.runPython(`import ${librariesOfMicropip.join(", ")}`);
  deno.writeFileSync(snapshotFile, python.makeMemorySnapshot());
  return python;
}
