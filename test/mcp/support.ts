import { EventEmitter, once } from "node:events";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as HttpV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport as TransportV1 } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  LoggingMessageNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import * as z from "zod";
import { Sessions } from "../../src/engine/sessions/sessions.ts";
import { CellwrightError } from "../../src/errors.ts";
import { createHttpApp, type HttpAppParts } from "../../src/http/app.ts";
import { createLog } from "../../src/log.ts";
import { createMcpRoute, type McpRouteParts } from "../../src/mcp/http.ts";
import { createServerFactory, type ServerFactory, type ServerParts } from "../../src/mcp/server.ts";
import { serveStdio } from "../../src/mcp/stdio.ts";
import { defaultOptions, type Options } from "../../src/options/options.ts";
import { defineTool, type Tool } from "../../src/tools/tool.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import { createFakeProvider } from "../support/fake-kernel.ts";
import { openMemoryStore } from "../support/memory-store.ts";

export const MB = 1024 * 1024;

/** What the test tools recorded about their calls. */
export interface Seen {
  began: string[];
  aborted: string[];
  ended: string[];
  /** Releases calls of `block`, waiting and future ones. */
  release(...tags: string[]): void;
}

/** A server over a fake kernel, with tools that show what they receive. */
export function createWorld({
  options: changed,
  ...rest
}: Partial<Omit<ServerParts, "options">> & { options?: Partial<Options> } = {}) {
  const lines: string[] = [];
  const log = createLog("debug", (line) => lines.push(line));
  const options: Options = { ...defaultOptions(), host: "127.0.0.1", port: 0, ...changed };
  const store = openMemoryStore();
  const sessions = new Sessions({
    provider: createFakeProvider(),
    store,
    openWorkspace: openLocalWorkspace,
    log,
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 10,
    warm: 0,
  });
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
  });
  const gates = createGates();
  const release = (...tags: string[]) => tags.forEach(gates.open);
  const seen: Seen = { began: [], aborted: [], ended: [], release };
  const createServer = createServerFactory({
    sessions,
    store,
    options,
    log,
    tools: testTools(seen, gates.opened),
    version: "1.2.3",
    local: true,
    ...rest,
  });
  return { createServer, sessions, store, options, log, lines, seen };
}

export type World = ReturnType<typeof createWorld>;

function createGates() {
  const open = new Set<string>();
  const opening = new EventEmitter().setMaxListeners(0);
  return {
    open(tag: string): void {
      open.add(tag);
      opening.emit(tag);
    },
    opened: async (tag: string, signal: AbortSignal): Promise<void> => {
      if (!open.has(tag)) await once(opening, tag, { signal });
    },
  };
}

function testTools(seen: Seen, opened: ReturnType<typeof createGates>["opened"]): Tool[] {
  const text = (value: string) => ({ type: "text" as const, text: value });
  return [
    defineTool({
      name: "echo",
      title: "Echo",
      description: "Says what it was told.",
      readOnly: true,
      input: z.object({
        text: z.string().describe("What to say."),
        times: z.int().min(1).max(5).default(1).describe("How often."),
        mode: z.enum(["plain", "loud"]).optional().describe("How."),
        target: z.union([z.string(), z.number()]).optional().describe("To whom."),
        extra: z.record(z.string(), z.json()).optional().describe("Anything."),
      }),
      run: async (input, { owner }) =>
        text(`${owner}: ${input.text.repeat(input.times)} ${JSON.stringify(input.extra)}`),
    }) as Tool,
    defineTool({
      name: "block",
      title: "Block",
      description: "Waits until it is cancelled, or until the test lets it go on.",
      readOnly: false,
      destructive: true,
      input: z.object({ tag: z.string() }),
      async run({ tag }, { signal, progress, printed }) {
        const released = opened(tag, signal);
        seen.began.push(tag);
        progress(`one ${tag}`);
        progress(`two ${tag}`);
        printed?.("stdout", `out ${tag}`);
        printed?.("stderr", `err ${tag}`);
        await released.catch(() => seen.aborted.push(tag));
        seen.ended.push(tag);
        return text(`ended ${tag}`);
      },
    }) as Tool,
    defineTool({
      name: "flood",
      title: "Flood",
      description: "Prints a lot.",
      readOnly: true,
      input: z.object({ chunks: z.number() }),
      async run({ chunks }, { printed }) {
        for (let chunk = 0; chunk < chunks; chunk += 1) printed?.("stdout", "x".repeat(100_000));
        return text("flooded");
      },
    }) as Tool,
    defineTool({
      name: "look",
      title: "Look",
      description: "Says whether a session is there.",
      readOnly: true,
      input: z.object({ session_id: z.string() }),
      run: async ({ session_id }, { sessions, owner }) => text(`found ${(await sessions.get(owner, session_id)).id}`),
    }) as Tool,
    defineTool({
      name: "write",
      title: "Write",
      description: "Writes a file into a session.",
      readOnly: false,
      input: z.object({ session_id: z.string().optional(), path: z.string(), text: z.string() }),
      async run({ session_id, path, text: content }, { sessions, owner }) {
        const session = session_id ? await sessions.get(owner, session_id) : await sessions.create(owner);
        await session.workspace.write(path, Buffer.from(content));
        session.filesChanged([path]);
        return text(session.id);
      },
    }) as Tool,
    defineTool({
      name: "fail",
      title: "Fail",
      description: "Fails.",
      readOnly: true,
      input: z.object({ how: z.enum(["bug", "caller"]) }),
      async run({ how }) {
        if (how === "bug") throw new Error("secret detail \u001b[31mred");
        throw new CellwrightError("file_not_found", "There is no `x`.");
      },
    }) as Tool,
  ];
}

/** The HTTP server of this setup, on its own port. */
export async function startHttp(
  world: Pick<World, "createServer" | "options" | "log"> & { sessions?: Sessions },
  { limits, ...route }: Partial<McpRouteParts> & Pick<HttpAppParts, "limits"> = {},
): Promise<{ url: URL; port: number; close(): Promise<void> }> {
  const mcp = createMcpRoute({
    createServer: world.createServer,
    sessions: world.sessions,
    log: world.log,
    maxRequestBytes: world.options.maxRequestMb * MB,
    ...route,
  });
  const app = createHttpApp({ options: world.options, routes: { "/mcp": mcp }, log: world.log, limits });
  onTestFinished(() => app.close());
  const { url, port } = await app.listen();
  return { url: new URL("/mcp", url), port, close: () => app.close() };
}

/** The server of this setup on two streams, as a client sees them. */
export function startStdio(world: { createServer: ServerFactory; options: Options; log: World["log"] }) {
  const toServer = new PassThrough();
  const fromServer = new PassThrough();
  const connection = serveStdio({
    createServer: world.createServer,
    maxRequestBytes: world.options.maxRequestMb * MB,
    log: world.log,
    streams: { input: toServer, output: fromServer },
  });
  onTestFinished(() => connection.close());
  return { toServer, fromServer, connection };
}

export const clientKinds = ["v1", "v2 legacy", "v2 modern"] as const;
export const wires = ["stdio", "http"] as const;
export type ClientKind = (typeof clientKinds)[number];

/** One interface for three clients. */
export interface TestClient {
  era: "legacy" | "modern";
  v1?: ClientV1;
  v2?: ClientV2;
  call(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<CallResult>;
  tools(): Promise<{ name: string; inputSchema: Record<string, unknown>; annotations?: object }[]>;
  instructions(): string | undefined;
  resources(): Promise<{ uri: string; name: string; mimeType?: string; size?: number }[]>;
  templates(): Promise<string[]>;
  read(uri: string): Promise<{ uri: string; mimeType?: string; text?: string; blob?: string }>;
  /** Notifications received so far, `list` or the URI that was updated. */
  watch(uri: string): Promise<string[]>;
  /** Requests log messages; they are added to the list. */
  logs(level: "info" | "warning"): Promise<{ logger?: string; data: unknown }[]>;
  /** Disconnects without closing, as a killed process does. */
  vanish(): void;
  close(): Promise<void>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (progress: { progress: number; message?: string }) => void;
  logLevel?: "info" | "warning";
}

export interface CallResult {
  isError?: boolean;
  content: { type: string; text?: string }[];
  _meta?: Record<string, unknown>;
}

export const textOf = (result: CallResult) => result.content.map((block) => block.text ?? "").join("\n");

export async function connect(
  kind: ClientKind,
  to: { url: URL; token?: string } | { toServer: Writable; fromServer: Readable },
): Promise<TestClient> {
  const sockets = new AbortController();
  const requestInit = "token" in to && to.token ? { headers: { authorization: `Bearer ${to.token}` } } : {};
  const fetchUntil: typeof fetch = (input, init) =>
    fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, sockets.signal]) : sockets.signal });
  const info = { name: "test", version: "1" };
  const client = await (kind === "v1" ? connectV1() : connectV2());
  onTestFinished(() => client.close().catch(() => {}));
  return client;

  async function connectV1(): Promise<TestClient> {
    const v1 = new ClientV1(info);
    v1.onerror = () => {};
    const transport =
      "url" in to
        ? new HttpV1(to.url, { requestInit, fetch: fetchUntil })
        : new StreamTransport(to.toServer, to.fromServer);
    await v1.connect(transport as TransportV1);
    return {
      era: "legacy",
      v1,
      call: (name, args = {}, { signal, onProgress } = {}) =>
        v1.callTool({ name, arguments: args }, undefined, { signal, onprogress: onProgress }) as Promise<CallResult>,
      tools: async () => (await v1.listTools()).tools,
      instructions: () => v1.getInstructions(),
      resources: async () => (await v1.listResources()).resources,
      templates: async () => (await v1.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
      read: async (uri) => (await v1.readResource({ uri })).contents[0] as never,
      async watch(uri) {
        const notices: string[] = [];
        v1.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void notices.push(params.uri));
        v1.setNotificationHandler(ResourceListChangedNotificationSchema, () => void notices.push("list"));
        await v1.subscribeResource({ uri });
        return notices;
      },
      async logs(level) {
        const messages: { logger?: string; data: unknown }[] = [];
        v1.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void messages.push(params));
        await v1.setLoggingLevel(level);
        return messages;
      },
      vanish: () => sockets.abort(),
      close: () => v1.close(),
    };
  }

  async function connectV2(): Promise<TestClient> {
    const era = kind === "v2 modern" ? "modern" : "legacy";
    const v2 = new ClientV2(info, era === "modern" ? { versionNegotiation: { mode: "auto" } } : {});
    v2.onerror = () => {};
    const transport =
      "url" in to
        ? new HttpV2(to.url, { requestInit, fetch: fetchUntil })
        : new StreamTransport(to.toServer, to.fromServer);
    await v2.connect(transport as never);
    const messages: { logger?: string; data: unknown }[] = [];
    let asked: string | undefined;
    return {
      era,
      v2,
      call: (name, args = {}, { signal, onProgress } = {}) =>
        v2.callTool(
          {
            name,
            arguments: args,
            ...(asked && era === "modern" ? { _meta: { "io.modelcontextprotocol/logLevel": asked } } : {}),
          } as never,
          { signal, onprogress: onProgress } as never,
        ) as Promise<CallResult>,
      tools: async () => (await v2.listTools()).tools as never,
      instructions: () => v2.getInstructions(),
      resources: async () => (await v2.listResources()).resources,
      templates: async () => (await v2.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
      read: async (uri) => (await v2.readResource({ uri })).contents[0] as never,
      async watch(uri) {
        const notices: string[] = [];
        v2.setNotificationHandler("notifications/resources/updated", ({ params }) => void notices.push(params.uri));
        v2.setNotificationHandler("notifications/resources/list_changed", () => void notices.push("list"));
        if (era === "modern") await v2.listen({ resourcesListChanged: true, resourceSubscriptions: [uri] });
        else await v2.subscribeResource({ uri });
        return notices;
      },
      async logs(level) {
        v2.setNotificationHandler("notifications/message", ({ params }) => void messages.push(params));
        if (era === "modern") asked = level;
        else await v2.setLoggingLevel(level);
        return messages;
      },
      vanish: () => sockets.abort(),
      close: () => v2.close(),
    };
  }
}

/** A client's side of stdio, without a process. */
class StreamTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #output: Writable;
  readonly #input: Readable;

  constructor(output: Writable, input: Readable) {
    this.#output = output;
    this.#input = input;
  }
  async start() {
    let rest = "";
    this.#input.setEncoding("utf8");
    this.#input.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.onmessage?.(JSON.parse(line));
    });
    this.#input.on("close", () => this.onclose?.());
  }
  async send(message: JSONRPCMessage) {
    this.#output.write(`${JSON.stringify(message)}\n`);
  }
  async close() {
    this.#output.end();
    this.onclose?.();
  }
}
