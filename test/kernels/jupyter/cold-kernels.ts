import { mkdtempSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { type ColdStart, startCold } from "../../../src/kernels/jupyter/cold.ts";
import { createConnection, removeConnection } from "../../../src/kernels/jupyter/connection.ts";
import { JupyterKernel, ready } from "../../../src/kernels/jupyter/kernel.ts";
import { connectZmq } from "../../../src/kernels/jupyter/zmq.ts";
import { createLog } from "../../../src/log.ts";

export interface ColdTestKernel {
  kernel: JupyterKernel;
  workspaceDir: string;
  runDir: string;
}

/** Kernels started from nothing and without a jail, in folders of their own, all gone after the test file. */
export function coldKernels(python: string): {
  start(changes?: Partial<ColdStart["request"]>): Promise<ColdTestKernel>;
} {
  const folder = mkdtempSync(join(tmpdir(), "cw-cold-"));
  const kernels: JupyterKernel[] = [];
  afterAll(async () => {
    await Promise.all(kernels.map((kernel) => kernel.dispose()));
    rmSync(folder, { recursive: true, force: true });
  });
  let sessions = 0;
  return {
    async start(changes = {}) {
      sessions += 1;
      const sessionDir = join(folder, String(sessions));
      const workspaceDir = join(sessionDir, "workspace");
      const runDir = join(sessionDir, "run");
      await mkdir(workspaceDir, { recursive: true });
      await mkdir(runDir, { recursive: true });
      const connection = await createConnection(runDir);
      const cold = startCold({
        python,
        request: { connectionFile: connection.insideFile, workingDir: workspaceDir, ...changes },
        journalFile: join(runDir, "journal"),
        heartbeatFile: join(runDir, "heartbeat"),
        env: { PATH: process.env.PATH ?? "", HOME: runDir, LANG: "C.UTF-8" },
        log: createLog("error"),
      });
      const channel = await connectZmq(connection);
      const startFailed = cold.life.exited.then(({ reason }) => {
        throw new Error(`${reason} ${cold.lastWords()}`);
      });
      await Promise.race([ready(channel, AbortSignal.timeout(50_000)), startFailed]);
      startFailed.catch(() => {});
      const info = { provider: "local", language: "python" as const, description: "Python", walls: [] };
      const kernel = new JupyterKernel({ info, channel, life: cold.life });
      kernels.push(kernel);
      void kernel.closed.then(() => removeConnection(connection));
      return { kernel, workspaceDir, runDir };
    },
  };
}
