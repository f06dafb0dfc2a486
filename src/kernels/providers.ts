import { join } from "node:path";
import type { Log } from "../log.ts";
import type { Options } from "../options.ts";
import type { KernelProvider } from "./kernel.ts";

type Build = (options: Options, log: Log) => Promise<KernelProvider>;

/** The only list of backends. Each is imported when it is first wanted: its dependencies are heavy. */
const providers: Record<Exclude<Options["kernel"], "auto">, Build> = {
  wasm: async (options, log) => {
    const { createWasmProvider } = await import("./wasm/provider.ts");
    return createWasmProvider({
      cacheDir: join(options.dataDir, "cache"),
      memoryMb: options.memoryMb,
      diskMb: options.diskMb,
      jail: options.jail,
      startTimeoutMs: options.startTimeout,
      packages: {
        initial: options.packages,
        automatic: !options.noInstall,
        packageDir: options.packageDir,
        pyodideBaseUrl: options.pyodideBaseUrl,
        packageIndex: options.packageIndex,
        env: process.env,
      },
      log,
    });
  },
};

export async function createProvider(options: Options, log: Log): Promise<KernelProvider> {
  return providers[options.kernel === "auto" ? "wasm" : options.kernel](options, log);
}
