import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll } from "vitest";
import type { Isolation } from "../../src/jail/jail.ts";
import type { Kernel } from "../../src/kernels/kernel.ts";
import { createProvider } from "../../src/kernels/providers.ts";
import { createLog } from "../../src/log.ts";
import { defaultOptions } from "../../src/options.ts";
import { testPython } from "../support/pythons.ts";

/** The test environment, as a caller names it. */
export const managed = dirname(dirname(testPython("managed")));

interface Changes {
  /** An environment that a caller names, and no operator vouches for. */
  named?: string;
  /** The user's folder for all sessions. */
  workspace?: string;
}

/** Kernels as users get them with `--kernel local --jail TIER`. */
export function localKernels({ tier }: Isolation, { named, workspace }: Changes = {}) {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-tier-"));
  const vouched = named === undefined ? { env: managed } : { allowEnvPaths: true };
  const options = {
    ...defaultOptions(),
    kernel: "local" as const,
    jail: tier,
    dataDir: join(folder, "data"),
    ...vouched,
  };
  const provider = createProvider({ ...options, workspace }, createLog("error"));
  let count = 0;
  afterAll(async () => {
    await (await provider).dispose();
    rmSync(folder, { recursive: true, force: true });
  });
  return async (language: "python" | "bash"): Promise<{ kernel: Kernel; workspaceDir: string }> => {
    count += 1;
    const sessionDir = join(options.dataDir, "sessions", String(count));
    const [ownDir, runDir] = ["workspace", "run"].map((name) => join(sessionDir, name)) as [string, string];
    const workspaceDir = workspace ?? ownDir;
    for (const made of [workspaceDir, runDir]) mkdirSync(made, { recursive: true });
    const { signal } = new AbortController();
    const start = { sessionId: `tier-${process.pid}-${count}`, workspaceDir, runDir, signal };
    return { kernel: await (await provider).start({ language, env: named }, start), workspaceDir };
  };
}
