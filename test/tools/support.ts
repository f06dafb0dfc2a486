import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { Sessions } from "../../src/engine/sessions/sessions.ts";
import { CellwrightError } from "../../src/errors.ts";
import type { KernelProvider } from "../../src/kernels/kernel.ts";
import { createLog } from "../../src/log.ts";
import { describeArguments } from "../../src/mcp/arguments.ts";
import { defaultOptions, type Options } from "../../src/options/options.ts";
import { render, renderError } from "../../src/render/reply.ts";
import type { ToolResult } from "../../src/render/result.ts";
import type { Store } from "../../src/store/store.ts";
import { toolGroups } from "../../src/tools/index.ts";
import type { Reply, ToolContext } from "../../src/tools/tool.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createFakeProvider, type FakeProvider } from "../support/fake-kernel.ts";
import { openMemoryStore } from "../support/memory-store.ts";

export interface World<Provider extends KernelProvider = FakeProvider> {
  sessions: Sessions;
  store: Store;
  provider: Provider;
  options: Options;
  /** The progress message of the next heartbeat, and all output of cells. */
  told: { progress(): string; printed: string[] };
  reply(name: string, args?: Record<string, unknown>, context?: Partial<ToolContext>): Promise<Reply>;
  call(name: string, args?: Record<string, unknown>, context?: Partial<ToolContext>): Promise<Shown>;
}

export interface Shown extends ToolResult {
  /** All text, and placeholders for other blocks. */
  text: string;
  execution: { session_id: string; execution_id: string; status: string };
  code: string | undefined;
}

/** The tools over the real engine with fake kernels, as clients see them. */
export function createWorld(parts?: {
  options?: Partial<Options>;
  store?: Store;
  openWorkspace?: (dir: string) => Workspace;
}): World;
export function createWorld<Provider extends KernelProvider>(parts: {
  provider: Provider;
  options?: Partial<Options>;
  store?: Store;
}): World<Provider>;
export function createWorld({
  provider = createFakeProvider(),
  options: changed,
  store = openMemoryStore(),
  openWorkspace = openLocalWorkspace,
}: {
  provider?: KernelProvider;
  options?: Partial<Options>;
  store?: Store;
  openWorkspace?: (dir: string) => Workspace;
} = {}): World<KernelProvider> {
  const options = { ...defaultOptions(), ...changed };
  const log = createLog("silent");
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace,
    log,
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 5,
    warm: 0,
  });
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
  });
  const told: World["told"] = { progress: () => "", printed: [] };
  const tools = new Map(toolGroups.flatMap(({ tools }) => tools).map((tool) => [tool.name, tool]));

  const reply: World["reply"] = async (name, args = {}, context = {}) => {
    const tool = tools.get(name);
    if (!tool) throw new Error(`no tool ${name}`);
    return tool.run(describeArguments(tool).parse(args), {
      sessions,
      store,
      options,
      owner: "local",
      local: true,
      signal: new AbortController().signal,
      progress: (message) => {
        told.progress = typeof message === "string" ? () => message : message;
      },
      printed: (stream, text) => told.printed.push(`${stream}: ${text}`),
      tell: () => {},
      ...context,
    });
  };
  return {
    sessions,
    store,
    provider,
    options,
    told,
    reply,
    async call(name, args, context) {
      try {
        return show(await render(await reply(name, args, context), { options, store }));
      } catch (error) {
        if (!(error instanceof CellwrightError)) throw error;
        return show(renderError(error, log));
      }
    },
  };
}

export function show(result: ToolResult): Shown {
  const text = result.content
    .map((block) => {
      if (block.type === "text") return block.text;
      if (block.type === "image") return `<${block.mimeType}>`;
      return block.type === "resource" ? `<blob ${block.resource.uri}>` : `<link ${block.uri}>`;
    })
    .join("\n");
  const execution = result._meta?.["cellwright/execution"] as Shown["execution"];
  const code = (result._meta?.["cellwright/error"] as { code: string } | undefined)?.code;
  return { ...result, text, execution, code };
}

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-tools-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
