import { mkdtempSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Kernel, KernelProvider, StartOptions } from "../../../src/kernels/kernel.ts";
import { createWasmProvider, type WasmConfig } from "../../../src/kernels/wasm/provider.ts";
import { createLog } from "../../../src/log.ts";

/** Snapshots are named by a hash of their inputs, so all test files can share one. */
export const cacheDir = join(tmpdir(), "cellwright-test-cache");

export interface TestKernels {
  provider: KernelProvider;
  folder: string;
  start(options?: Pick<StartOptions, "progress">): Promise<{ kernel: Kernel; workspaceDir: string; runDir: string }>;
}

/** A provider with separate folders, removed after the test file. */
export function wasmKernels(config: Partial<WasmConfig> = {}): TestKernels {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-wasm-"));
  const provider = createWasmProvider({
    cacheDir,
    memoryMb: 512,
    diskMb: 64,
    jail: "auto",
    startTimeoutMs: 120_000,
    log: createLog("error"),
    ...config,
  });
  let sessions = 0;
  afterAll(async () => {
    await provider.dispose();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    provider,
    folder,
    async start(options = {}) {
      sessions += 1;
      const sessionId = `session-${sessions}`;
      const workspaceDir = join(folder, sessionId, "workspace");
      const runDir = join(folder, sessionId, "run");
      await mkdir(workspaceDir, { recursive: true });
      await mkdir(runDir, { recursive: true });
      const { signal } = new AbortController();
      const kernel = await provider.start(
        { language: "python" },
        { ...options, sessionId, workspaceDir, runDir, signal },
      );
      return { kernel, workspaceDir, runDir };
    },
  };
}
