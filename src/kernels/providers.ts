import { join } from "node:path";
import type { Log } from "../log.ts";
import type { Options } from "../options.ts";
import type { KernelProvider, PackageImages } from "./kernel.ts";

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
      packages: { initial: options.packages, automatic: !options.noInstall, ...packagePlaces(options) },
      log,
    });
  },
};

export async function createProvider(options: Options, log: Log): Promise<KernelProvider> {
  return providers[options.kernel === "auto" ? "wasm" : options.kernel](options, log);
}

/** The package images of WASM kernels, for those who look after them. */
export async function openPackageImages(options: Options, log: Log): Promise<PackageImages> {
  const [{ createPackages }, { findSources }] = await Promise.all([
    import("./wasm/packages/packages.ts"),
    import("./wasm/sources.ts"),
  ]);
  return createPackages({ cacheDir: join(options.dataDir, "cache"), ...packagePlaces(options), log }, findSources());
}

function packagePlaces({ packageDir, pyodideBaseUrl, packageIndex }: Options) {
  return { packageDir, pyodideBaseUrl, packageIndex, env: process.env };
}
