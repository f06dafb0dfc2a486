import { copyFileSync, linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findSources, type Sources } from "../../../../src/kernels/wasm/sources.ts";
import { atEnd } from "./clear-up.ts";
import type { Wheel } from "./wheels.ts";

/** A server that records requests. */
export interface StandIn {
  url: string;
  /** Host and port. */
  host: string;
  hits: string[];
  requests: IncomingMessage[];
}

type Handler = (path: string, request: IncomingMessage, response: ServerResponse) => void;

export async function serve(handle: Handler): Promise<StandIn> {
  const hits: string[] = [];
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    hits.push(request.url ?? "");
    requests.push(request);
    handle(decodeURIComponent(request.url ?? ""), request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `http://${host}/`, host, hits, requests };
}

/** A server with these files, by name. */
export function serveFiles(files: Map<string, Buffer> | Wheel[]): Promise<StandIn> {
  const content = Array.isArray(files) ? new Map(files.map((wheel) => [wheel.file, wheel.data])) : files;
  return serve((path, _, response) => {
    const data = content.get(path.split("/").at(-1) ?? "");
    response.statusCode = data ? 200 : 404;
    response.end(data);
  });
}

export interface IndexOptions {
  as?: "json" | "html";
  /** The host of the files; default: the index itself. */
  filesUrl?: string;
  /** Whether pages offer separate metadata (PEP 658). */
  metadata?: boolean;
  /** Wrong hashes for the files. */
  wrongHashes?: boolean;
}

/** A package index: pages at `simple/<name>/`, files at `files/`. */
export function serveIndex(wheels: Wheel[], options: IndexOptions = {}): Promise<StandIn> {
  const { as = "json", metadata = true, wrongHashes = false } = options;
  return serve((path, request, response) => {
    const [, kind, name = ""] = path.split("/");
    const file = wheels.find((wheel) => wheel.file === name);
    const describing = wheels.find((wheel) => `${wheel.file}.metadata` === name);
    if (kind === "files" && file) return response.end(file.data);
    if (kind === "files" && describing && metadata) return response.end(describing.metadata);
    const found = kind === "simple" ? wheels.filter((wheel) => wheel.name === name) : [];
    if (found.length === 0) {
      response.statusCode = 404;
      return response.end();
    }
    const filesUrl = options.filesUrl ?? `http://${request.headers.host}/files/`;
    const hash = (wheel: Wheel) => (wrongHashes ? "0".repeat(64) : wheel.sha256);
    if (as === "html") {
      response.setHeader("content-type", "text/html");
      const links = found.map(
        (wheel) => `<a href="${filesUrl}${wheel.file}#sha256=${hash(wheel)}">${wheel.file}</a><br/>`,
      );
      return response.end(`<!DOCTYPE html><html><body>${links.join("\n")}</body></html>`);
    }
    response.setHeader("content-type", "application/vnd.pypi.simple.v1+json");
    const files = found.map((wheel) => ({
      filename: wheel.file,
      url: filesUrl + wheel.file,
      hashes: { sha256: hash(wheel) },
      ...(metadata && { "core-metadata": true }),
    }));
    return response.end(JSON.stringify({ meta: { "api-version": "1.0" }, name, files }));
  });
}

/** Pyodide with a test lock: the lock beside Pyodide defines the content of the distribution. */
export function sourcesWithLock(wheels: Wheel[]): Sources {
  const sources = findSources();
  const pyodideDir = mkdtempSync(join(tmpdir(), "cellwright-pyodide-"));
  atEnd(() => rmSync(pyodideDir, { recursive: true, force: true }));
  for (const name of readdirSync(sources.pyodideDir)) {
    if (name === "pyodide-lock.json") continue;
    const [from, to] = [join(sources.pyodideDir, name), join(pyodideDir, name)];
    // Copies: path permissions would resolve symlinks, and hard links do not work across disks.
    try {
      linkSync(from, to);
    } catch {
      copyFileSync(from, to);
    }
  }
  const lock = JSON.parse(readFileSync(join(sources.pyodideDir, "pyodide-lock.json"), "utf8"));
  lock.packages = Object.fromEntries(
    wheels.map((wheel) => [
      wheel.name,
      {
        name: wheel.name,
        version: wheel.version,
        file_name: wheel.file,
        sha256: wheel.sha256,
        depends: wheel.depends,
        imports: [wheel.name.replaceAll("-", "_")],
        install_dir: "site",
        package_type: "package",
        unvendored_tests: false,
      },
    ]),
  );
  writeFileSync(join(pyodideDir, "pyodide-lock.json"), JSON.stringify(lock));
  return { ...sources, pyodideDir };
}
