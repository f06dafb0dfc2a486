import { createHash } from "node:crypto";
import { CellwrightError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { OptionError } from "../../options/options.ts";
import { LOCAL_OWNER } from "../../store/store.ts";
import { Balancer } from "../balancer.ts";
import type { KernelProvider } from "../kernel.ts";
import { Sandbox } from "./client.ts";
import { describePool, PoolKernel } from "./kernel.ts";
import { Leftovers } from "./leftovers.ts";
import { createPoolWorkspace } from "./workspace.ts";

export interface PoolConfig {
  urls: string[];
  /** Token for the sandboxes. */
  token?: string | undefined;
  /** Replaces `token` for local sandboxes that run as the same user. */
  ownToken?: string | undefined;
  /** Trust local sandboxes of any user. */
  anyListener?: boolean;
  coolDownMs: number;
  /** Send the session's own name to sandboxes, so that other clients can share it. */
  plainNames?: boolean;
  log: Log;
}

/** A pool of sandboxes behind HTTP, with sticky sessions. */
export async function createPoolProvider(config: PoolConfig): Promise<KernelProvider> {
  const { urls, token, ownToken, anyListener, coolDownMs, plainNames = false, log } = config;
  const access = { token, ownToken, anyListener };
  const sandboxes = new Map(nameAddresses(urls).map(({ name, url }) => [name, new Sandbox(name, url, access)]));
  const balancer = new Balancer([...sandboxes.keys()], { coolDownMs });
  const leftovers = new Leftovers();
  const workspace = createPoolWorkspace();
  const kernels = new Map<string, PoolKernel>();

  return {
    name: "pool",
    backends: balancer,
    list: async () => [describePool()],
    workspace: () => workspace,
    start: async ({ language, env }, { sessionId, sessionName, owner, signal }) => {
      if (language !== "python") throw new CellwrightError("kernel_not_found", "Sandboxes of a pool run Python only.");
      if (env !== undefined) {
        throw new CellwrightError("kernel_not_found", `A pool has no environments, so there is no \`${env}\`.`);
      }
      const ended = (kernel: PoolKernel, place: string | undefined) => {
        if (kernels.get(sessionId) !== kernel) return;
        kernels.delete(sessionId);
        // The session may have been assigned to its next sandbox already.
        if (balancer.placeOf(sessionId) === place) balancer.forget(sessionId);
      };
      const name = plainNames && sessionName !== undefined ? sharedName(sessionName, owner) : undefined;
      const kernel = new PoolKernel({ sessionId, name, leftovers, sandboxes, balancer, log, ended });
      await kernel.start(signal);
      kernels.set(sessionId, kernel);
      return kernel;
    },
    dispose: async () => {
      await Promise.all([...kernels.values()].map((kernel) => kernel.dispose()));
    },
  };
}

/** Sandboxes do not know tenants: the same name of two tenants must not mean the same session there. */
function sharedName(name: string, owner = LOCAL_OWNER): string {
  if (owner === LOCAL_OWNER) return name;
  return `tenant-${createHash("sha256")
    .update(JSON.stringify([owner, name]))
    .digest("hex")
    .slice(0, 32)}`;
}

/** A sandbox is named by its port if all are on one host, otherwise by host and port. */
export function nameAddresses(addresses: string[]): { name: string; url: URL }[] {
  const urls = addresses.map(parseAddress);
  const isOneHost =
    new Set(urls.map(({ protocol, hostname, pathname }) => `${protocol}${hostname}${pathname}`)).size === 1;
  return urls.map((url) => {
    const port = url.port || (url.protocol === "https:" ? "443" : "80");
    const path = url.pathname.replace(/\/+$/, "");
    return { name: isOneHost ? port : `${url.hostname}:${port}${path}`, url };
  });
}

function parseAddress(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  // Not shown: it may contain a password.
  if (address.includes("@")) throw new OptionError("--pool-url: an address with a name or password cannot be used.");
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    throw new OptionError(`--pool-url: \`${address}\` is not an address like http://127.0.0.1:18901.`);
  }
  return url;
}
