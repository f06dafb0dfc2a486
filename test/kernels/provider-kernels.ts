import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Kernel, KernelProvider, KernelSpec, StartOptions } from "../../src/kernels/kernel.ts";
import { createProvider } from "../../src/kernels/providers.ts";
import { createLog } from "../../src/log.ts";
import { defaultOptions, type Options } from "../../src/options/options.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { linkTestCache } from "../support/paths.ts";

export interface TestKernel {
  kernel: Kernel;
  /** The session's files, as tools see them. */
  workspace: Workspace;
  /** Their local path, if they are on this machine. */
  workspaceDir: string;
  runDir: string;
}

export interface ProviderKernels {
  provider(): Promise<KernelProvider>;
  /** A kernel in a separate session. */
  start(spec?: Partial<KernelSpec>, options?: Pick<StartOptions, "progress">): Promise<TestKernel>;
}

/** The provider that the program builds from these options. */
export function builtFrom(options: Partial<Options> | (() => Promise<Partial<Options>>)) {
  return async (dataDir: string): Promise<KernelProvider> => {
    const given = typeof options === "function" ? await options() : options;
    return createProvider({ ...defaultOptions(), dataDir, ...given }, createLog("error"));
  };
}

/** Unique across providers: cgroups are named after sessions, so two of the same name would end together. */
let sessions = 0;

/** Kernels of one provider, created on first use. Everything is removed after the test file. */
export function providerKernels(
  open: (dataDir: string) => Promise<KernelProvider>,
  /** The user's folder for all sessions. */
  { workspace: sharedDir }: { workspace?: string | undefined } = {},
): ProviderKernels {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-kernels-"));
  linkTestCache(dataDir);
  let opened: Promise<KernelProvider> | undefined;
  afterAll(async () => {
    await (await opened?.catch(() => undefined))?.dispose();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const provider = () => {
    opened ??= open(dataDir);
    return opened;
  };
  return {
    provider,
    async start(spec = {}, options = {}) {
      sessions += 1;
      const sessionId = `test-${process.pid}-${sessions}`;
      const sessionDir = join(dataDir, "sessions", sessionId);
      const workspaceDir = sharedDir ?? join(sessionDir, "workspace");
      const runDir = join(sessionDir, "run");
      for (const folder of [workspaceDir, runDir]) mkdirSync(folder, { recursive: true });
      const { signal } = new AbortController();
      const from = await provider();
      const slot = { ...options, sessionId, workspaceDir, runDir, signal };
      const kernel = await from.start({ language: "python", ...spec }, slot);
      const workspace = from.workspace?.(sessionId) ?? openLocalWorkspace(workspaceDir);
      return { kernel, workspace, workspaceDir, runDir };
    },
  };
}
