import { mkdtempSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Language } from "../../../../src/execution.ts";
import type { JupyterKernel } from "../../../../src/kernels/jupyter/kernel.ts";
import { JupyterServer, type JupyterServerConfig } from "../../../../src/kernels/jupyter/remote/server.ts";
import { startRemote } from "../../../../src/kernels/jupyter/remote/start.ts";
import { createLog } from "../../../../src/log.ts";
import {
  type JupyterServerSettings,
  startJupyterServer,
  type TestJupyterServer,
} from "../../../support/jupyter-server.ts";

/** Notices a dead kernel in half a second instead of three, and passes on all that is shown. */
export const quickServer = [
  "--KernelRestarter.time_to_dead=0.5",
  "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=1e9",
  "--ServerApp.iopub_data_rate_limit=1e9",
];

export interface RemoteTestKernel {
  kernel: JupyterKernel;
  workspaceDir: string;
  runDir: string;
}

/** Kernels of one real Jupyter server, which is started when it is first wanted; all gone after the test file. */
export function remoteKernels(python: string, settings: JupyterServerSettings = { args: quickServer }) {
  const folder = mkdtempSync(join(tmpdir(), "cw-remote-"));
  const kernels: JupyterKernel[] = [];
  let started: Promise<TestJupyterServer> | undefined;
  afterAll(async () => {
    await Promise.all(kernels.map((kernel) => kernel.dispose()));
    await (await started)?.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const jupyter = (): Promise<TestJupyterServer> => {
    started ??= startJupyterServer(python, settings);
    return started;
  };
  const log = createLog("error");
  const server = async (changes: Partial<JupyterServerConfig> = {}): Promise<JupyterServer> => {
    const { url, token } = await jupyter();
    return new JupyterServer({ url, token, log, ...changes });
  };
  let sessions = 0;
  return {
    jupyter,
    server,
    async start(changes: Partial<JupyterServerConfig> = {}, language: Language = "python"): Promise<RemoteTestKernel> {
      sessions += 1;
      const session = String(sessions);
      const { home } = await jupyter();
      const workspaceDir = join(home, "cellwright", session);
      const runDir = join(folder, session, "run");
      await mkdir(runDir, { recursive: true });
      const kernel = await startRemote({
        server: await server(changes),
        language,
        workingDir: `cellwright/${session}`,
        runDir,
        startTimeoutMs: 60_000,
        signal: AbortSignal.timeout(60_000),
        log,
      });
      kernels.push(kernel);
      return { kernel, workspaceDir, runDir };
    },
  };
}
