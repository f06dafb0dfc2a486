import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { PROXY_PORT } from "../../../isolation/jail.ts";
import type { Log } from "../../../log.ts";
import { decoded, type IndexAddress } from "../../../packages/index-address.ts";
import { type IndexFile, readdressPage } from "../../../packages/index-page.ts";
import { normalName } from "../../../packages/requirement.ts";
import type { NetworkWay } from "./places.ts";
import { openUpstream } from "./upstream.ts";

/** Pages of packages with thousands of releases take a few megabytes. */
const MAX_PAGE_BYTES = 64 * 1024 * 1024;

const passedRequestHeaders = ["accept", "range", "user-agent"];
const passedAnswerHeaders = [
  "content-type",
  "content-length",
  "content-range",
  "accept-ranges",
  "etag",
  "cache-control",
];

export interface GatewayOptions {
  indexes: IndexAddress[];
  way: NetworkWay;
  /** Whether the installer is in a jail without network, and reaches the gateway through a Unix socket. */
  jailed: boolean;
  progress: (message: string) => void;
  log: Log;
}

/** The installer's requests and their results. */
export interface GatewayFacts {
  /** By normalized name. `found`: an index has the package. `failure`: an index could not be reached. */
  pages: Map<string, { found: boolean; failure?: string }>;
  /** Files that could not be fetched. */
  failedFiles: { name: string; failure: string }[];
}

/**
 * One installer's only access to the package indexes: pages of packages, and the files that these pages name. All URLs
 * are rewritten to the gateway's, so the installer sees neither hosts nor passwords.
 */
export interface Gateway {
  /** As the installer sees them. */
  indexUrls: string[];
  /** The folder with its socket, for the jail. */
  socketDir?: string | undefined;
  facts: GatewayFacts;
  close(): Promise<void>;
}

export async function openGateway({ indexes, way, jailed, progress, log }: GatewayOptions): Promise<Gateway> {
  const upstream = openUpstream(indexes, way);
  // Without a jail, other users of this machine can connect to the port.
  const secret = randomBytes(16).toString("hex");
  const files: IndexFile[] = [];
  const facts: GatewayFacts = { pages: new Map(), failedFiles: [] };
  const closing = new AbortController();

  const addressOf = (file: IndexFile): string => {
    files.push(file);
    return `/${secret}/file/${files.length - 1}/${encodeURIComponent(file.name)}`;
  };

  const sendPage = async (index: IndexAddress, project: string, exchange: Exchange): Promise<void> => {
    const fact = facts.pages.get(project) ?? { found: false };
    facts.pages.set(project, fact);
    const { incoming, outgoing, signal } = exchange;
    try {
      const page = new URL(`${index.url.replace(/\/$/, "")}/${project}/`);
      const { response, url } = await upstream.get(page, picked(incoming, ["accept", "user-agent"]), signal);
      const { statusCode = 502 } = response;
      if (statusCode !== 200) {
        if (statusCode !== 404) fact.failure = `${url.host} answered with status ${statusCode}`;
        response.destroy();
        return end(outgoing, statusCode === 404 ? 404 : 403);
      }
      const type = response.headers["content-type"] ?? "text/html";
      const text = readdressPage(await textOf(response), type, { pageUrl: url.href, addressOf });
      fact.found = true;
      outgoing.writeHead(200, { "content-type": type }).end(text);
    } catch (error) {
      fact.failure = error instanceof Error ? error.message : String(error);
      log.debug(`package index: ${fact.failure}`);
      end(outgoing, 403);
    }
  };

  const sendFile = async (number: number, asked: string, { incoming, outgoing, signal }: Exchange): Promise<void> => {
    const file = files[number];
    const isMetadata = file !== undefined && asked === `${file.name}.metadata`;
    if (!file || (asked !== file.name && !isMetadata)) return end(outgoing, 404);
    if (!isMetadata) progress(`downloading ${file.name}`);
    const url = new URL(file.url);
    if (isMetadata) url.pathname += ".metadata";
    try {
      const { response } = await upstream.get(url, picked(incoming, passedRequestHeaders), signal);
      const { statusCode = 502 } = response;
      if (statusCode >= 400 && !isMetadata) {
        facts.failedFiles.push({ name: file.name, failure: `${url.host} answered with status ${statusCode}` });
      }
      outgoing.writeHead(statusCode, pickedAnswer(response));
      await pipeline(response, outgoing);
    } catch (error) {
      facts.failedFiles.push({ name: file.name, failure: error instanceof Error ? error.message : String(error) });
      end(outgoing, 403);
    }
  };

  const server = createServer((incoming, outgoing) => {
    const exchange = { incoming, outgoing, signal: closing.signal };
    const { url = "", method } = incoming;
    const [, given, kind, number = "", name = "", rest] = url.split("?")[0]?.split("/") ?? [];
    const index = kind === "index" ? indexes[Number(number)] : undefined;
    if (!url.startsWith("/")) {
      tellOfRefusal(url);
      return end(outgoing, 403);
    }
    if (given !== secret || method !== "GET") return end(outgoing, 404);
    if (index && name !== "" && (rest === undefined || rest === "")) {
      return void sendPage(index, normalName(decoded(name)), exchange);
    }
    if (kind === "file" && rest === undefined) return void sendFile(Number(number), decoded(name), exchange);
    return end(outgoing, 404);
  });
  const tellOfRefusal = (target: string): void => {
    const host = /^(?:\w+:\/\/)?(?:[^/@]*@)?([^/:?]+)/.exec(target)?.[1] ?? "";
    log.warn(`the installer was refused ${host.slice(0, 200)}, which is not a package index`);
  };
  server.on("connect", (incoming, socket) => {
    tellOfRefusal(incoming.url ?? "");
    socket.end("HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n");
  });
  server.on("clientError", (_error, socket) => socket.destroy());

  // A short path, because socket addresses are limited, and a folder of this installation only.
  const socketDir = jailed ? await mkdtemp(join(tmpdir(), "cellwright-index-")) : undefined;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    if (socketDir) server.listen(join(socketDir, "socket"), resolve);
    else server.listen(0, "127.0.0.1", resolve);
  });
  const port = socketDir ? PROXY_PORT : (server.address() as AddressInfo).port;
  return {
    indexUrls: indexes.map((_, number) => `http://127.0.0.1:${port}/${secret}/index/${number}/`),
    socketDir,
    facts,
    async close() {
      closing.abort();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      if (socketDir) await rm(socketDir, { recursive: true, force: true });
    },
  };
}

interface Exchange {
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  signal: AbortSignal;
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > MAX_PAGE_BYTES) throw new Error("a page of the index is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function picked({ headers }: IncomingMessage, names: string[]): Record<string, string> {
  const given = names.flatMap((name) => (typeof headers[name] === "string" ? [[name, headers[name]]] : []));
  return { ...Object.fromEntries(given), "accept-encoding": "identity" };
}

function pickedAnswer({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    passedAnswerHeaders.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]])),
  );
}

function end(outgoing: ServerResponse, status: number): void {
  if (outgoing.headersSent) outgoing.destroy();
  else outgoing.writeHead(status, { "content-length": "0" }).end();
}
