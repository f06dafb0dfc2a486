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
import type { FetchResult, InstallCommand, InstallReport, InstallRequest } from "./frames.ts";

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
const waiting = new Map<number, (result: FetchResult) => void>();
let lastId = 0;
let request: (request: InstallRequest) => void = () => {};
let unpack: () => void = () => {};
const requested = new Promise<InstallRequest>((resolve) => {
  request = resolve;
});
const allowed = new Promise<void>((resolve) => {
  unpack = resolve;
});

/** The functions that Python can call. */
const host = {
  report(report: string): void {
    send(JSON.parse(report));
  },
  async fetch(url: string, page: boolean): Promise<string> {
    lastId += 1;
    const id = lastId;
    const answered = new Promise<FetchResult>((resolve) => waiting.set(id, resolve));
    send({ type: "fetch", id, url, page });
    return JSON.stringify(await answered);
  },
  allowed: () => allowed,
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
      const command: InstallCommand = JSON.parse(line);
      if (command.op === "resolve") request(command);
      else if (command.op === "unpack") unpack();
      else waiting.get(command.id)?.(command.result);
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
  send({ type: "ready" });
  const { run } = python.pyimport("install") as { run(host: Host, request: string): Promise<void> };
  await run(host, JSON.stringify(await requested));
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

type Host = typeof host;

function send(report: InstallReport): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(report)}\n`);
  for (let at = 0; at < bytes.length; ) at += writeSync(STDOUT, bytes, at);
}
