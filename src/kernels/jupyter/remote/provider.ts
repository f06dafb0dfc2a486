import { CellwrightError } from "../../../errors.ts";
import type { Log } from "../../../log.ts";
import type { KernelProvider } from "../../kernel.ts";

export interface RemoteConfig {
  urls: string[];
  /** Of servers that `tokenFile` does not name. */
  token: string | undefined;
  tokenFile: string | undefined;
  caFile: string | undefined;
  /** On the server: absolute, or from its user's home. */
  notebooksFolder: string;
  coolDownMs: number;
  startTimeoutMs: number;
  log: Log;
}

/** Kernels of Jupyter servers. Throws when none of them can be used. */
export async function createRemoteProvider(_config: RemoteConfig): Promise<KernelProvider> {
  throw new CellwrightError("not_supported", "Jupyter servers cannot be used yet.");
}
