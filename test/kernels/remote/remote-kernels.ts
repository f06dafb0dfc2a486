import { afterAll } from "vitest";
import { createRemoteProvider, type RemoteConfig } from "../../../src/kernels/remote/provider.ts";
import { createLog } from "../../../src/log.ts";
import { defaultOptions } from "../../../src/options/options.ts";
import {
  type JupyterServerSettings,
  startJupyterServer,
  type TestJupyterServer,
} from "../../support/jupyter-server.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import { builtFrom, type ProviderKernels, providerKernels } from "../provider-kernels.ts";

/** Notices a dead kernel in half a second instead of three, and forwards all output. */
export const quickServer = [
  "--KernelRestarter.time_to_dead=0.5",
  "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=1e9",
  "--ServerApp.iopub_data_rate_limit=1e9",
];

/** Deviations from the options: the connection to the server, shorter timeouts. */
export type RemoteChanges = Partial<Pick<RemoteConfig, "times">> & { url: string };

/** Kernels of one real Jupyter server, which is started on first use; all removed after the test file. */
export function jupyterKernels(python: string, settings: JupyterServerSettings = { args: quickServer }) {
  let started: Promise<TestJupyterServer> | undefined;
  // Registered first, so it runs last: kernels are ended before their server.
  afterAll(async () => (await started)?.stop());
  const jupyter = (): Promise<TestJupyterServer> => {
    started ??= startJupyterServer(python, settings);
    return started;
  };
  const { start } = providerKernels(
    builtFrom(async () => {
      const { url, token } = await jupyter();
      return { kernel: "jupyter", jupyterUrl: [url], jupyterToken: token };
    }),
  );
  return {
    jupyter,
    start,
    /** Kernels of the same server with other settings. */
    by: (changes: (url: string) => Promise<RemoteChanges>): ProviderKernels =>
      providerKernels(async () => {
        const { url, token } = await jupyter();
        const { coolDown: coolDownMs, startTimeout: startTimeoutMs, notebooksFolder } = defaultOptions();
        const { url: changed, ...others } = await changes(url);
        const config = { urls: [changed], token, notebooksFolder };
        return createRemoteProvider({ ...config, coolDownMs, startTimeoutMs, log: createLog("error"), ...others });
      }),
  };
}

/** Kernels whose connections go through a proxy that can break them. */
export function kernelsBehindProxy(remote: ReturnType<typeof jupyterKernels>, times: RemoteConfig["times"]) {
  let opened: Promise<TcpProxy> | undefined;
  afterAll(async () => (await opened)?.close());
  const proxyTo = (url: string): Promise<TcpProxy> => {
    opened ??= TcpProxy.to(Number(new URL(url).port));
    return opened;
  };
  const { start } = remote.by(async (url) => ({ url: (await proxyTo(url)).through(url), times }));
  return {
    async start() {
      const { kernel } = await start();
      const { url } = await remote.jupyter();
      return { kernel, proxy: await proxyTo(url) };
    },
  };
}
