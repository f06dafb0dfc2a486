import { randomUUID } from "node:crypto";
import { posix } from "node:path";
import { CellwrightError, hasCode } from "../../errors.ts";
import type { Language } from "../../execution.ts";
import type { Log } from "../../log.ts";
import { Balancer } from "../balancer.ts";
import type { Kernel, KernelInfo, KernelProvider, StartOptions } from "../kernel.ts";
import type { JupyterKernel } from "../protocol/kernel.ts";
import { adoptRemote } from "./adopt.ts";
import type { Call } from "./files/helper.ts";
import { Site } from "./files/site.ts";
import { openRemoteWorkspace } from "./files/workspace.ts";
import { createMirror } from "./history/mirror.ts";
import { look, RECORD } from "./history/mirror-place.ts";
import { placedKernel } from "./placed-kernel.ts";
import { readRemoteRecord } from "./record.ts";
import { JupyterServer } from "./server/server.ts";
import type { SocketTimes } from "./server/socket.ts";
import { readTokens } from "./server/tokens.ts";
import { NOT_SANDBOXED, startRemote } from "./start.ts";

export interface RemoteConfig {
  urls: string[];
  /** For every server, or `@FILE` with a line for each. */
  token: string | undefined;
  /** On the server: absolute, or relative to its user's home. */
  notebooksFolder: string;
  coolDownMs: number;
  startTimeoutMs: number;
  /** Timeouts of connections and servers. */
  times?: Partial<SocketTimes>;
  log: Log;
}

/** Kernels on Jupyter servers. Throws if no server is usable. */
export async function createRemoteProvider(config: RemoteConfig): Promise<KernelProvider> {
  const { notebooksFolder, startTimeoutMs, log } = config;
  const sites = await openSites(config);
  const balancer = new Balancer([...sites.keys()], config);
  const live = new Set<Kernel>();
  const disposing = new AbortController();

  const siteAt = (url: string) => [...sites.values()].find(({ server }) => server.url === url);
  const siteNamed = (name: string): Site => sites.get(name) as Site;
  const placeOf = (sessionId: string): Site | undefined => {
    const [only] = sites.values();
    const name = sites.size === 1 ? only?.name : balancer.placeOf(sessionId);
    return name === undefined ? undefined : sites.get(name);
  };

  /** The server with a session's files: its current one, else the one with its copy, else where it would start. */
  const findSite = async (sessionId: string): Promise<Site> => {
    const known = placeOf(sessionId);
    if (known) return known;
    const looks = [...sites.values()].map(async (site) => {
      const { files } = await look(site.place, sessionId, 0);
      if (!(RECORD in files)) throw new Error("not here");
      return site;
    });
    const found = await Promise.any(looks).catch(() => undefined);
    if (!found) return siteNamed(balancer.choose(sessionId) ?? "");
    balancer.place(sessionId, found.name);
    return found;
  };

  const callAt =
    (find: () => Promise<Site>): Call =>
    async (operation, args, options) =>
      (await find()).helper.call(operation, args, options);

  const keep = (kernel: JupyterKernel, sessionId: string, site: Site, kernelId: string): Kernel => {
    const placed = placedKernel(kernel, () => balancer.begin(sessionId, site.name));
    live.add(placed);
    void placed.closed.then(() => {
      live.delete(placed);
      if (!disposing.signal.aborted) void forgetIfGone(site, kernelId).catch(() => {});
    });
    return placed;
  };

  const startAt = async (site: Site, language: Language, options: StartOptions): Promise<Kernel> => {
    const { sessionId, runDir } = options;
    let kernelId = "";
    const start = {
      server: site.server,
      language,
      workingDir: posix.join(notebooksFolder, sessionId),
      runDir,
      startTimeoutMs,
      signal: AbortSignal.any([options.signal, disposing.signal]),
      onCreated: async (id: string) => {
        kernelId = id;
        await site.instances.noteKernel(id, { sessionId, language });
      },
      log,
    };
    const former = await readRemoteRecord(runDir, language);
    const kernel = await startRemote(start);
    // A former kernel that could not be adopted is useless.
    if (former)
      void siteAt(former.url)
        ?.server.deleteKernel(former.kernelId)
        .catch(() => {});
    return keep(kernel, sessionId, site, kernelId);
  };

  return {
    name: "jupyter",
    backends: balancer,

    async list() {
      const names = [...sites.keys()].join(", ");
      return [infoOf("python", `Python (Jupyter server ${names})`), infoOf("bash", `bash (Jupyter server ${names})`)];
    },

    async start({ language, env }, options) {
      if (env !== undefined) {
        throw new CellwrightError(
          "kernel_not_found",
          `A Jupyter server runs its own Python, so there is no \`${env}\`.`,
        );
      }
      const { sessionId } = options;
      await findSite(sessionId);
      const tried = new Set<string>();
      for (let failure: unknown; ; ) {
        const name = balancer.choose(sessionId, tried);
        if (name === undefined) throw failure;
        const use = balancer.begin(sessionId, name);
        try {
          const kernel = await startAt(siteNamed(name), language, options);
          use.succeeded();
          return kernel;
        } catch (error) {
          if (!isServersFault(error)) throw error;
          use.failed();
          tried.add(name);
          failure ??= error;
          log.warn(`no kernel could be started at ${name}: ${(error as Error).message}`);
        } finally {
          use.ended();
        }
      }
    },

    async adopt(language, options) {
      const { sessionId, runDir, signal } = options;
      const record = await readRemoteRecord(runDir, language);
      const site = record && siteAt(record.url);
      const adopted = site && (await adoptRemote({ runDir, record, server: site.server, signal, log }));
      if (!adopted) return undefined;
      const { kernelId } = record;
      balancer.place(sessionId, site.name);
      await site.instances
        .noteKernel(kernelId, { sessionId, language })
        .catch((error) => log.warn(`${site.name}: cannot register this Cellwright there`, error));
      return { ...adopted, kernel: keep(adopted.kernel, sessionId, site, kernelId) };
    },

    workspace: (sessionId) => {
      const call = callAt(() => findSite(sessionId));
      return openRemoteWorkspace({ call, notebooksFolder, sessionId });
    },

    parentFolder: (sessionId) => {
      const [first] = sites.values();
      const call = callAt(async () => (sessionId === "" && first ? first : findSite(sessionId)));
      return openRemoteWorkspace({ call, notebooksFolder, sessionId: "" });
    },

    mirror: createMirror({
      places: [...sites.values()].map(({ place }) => place),
      placeOf: (sessionId) => placeOf(sessionId)?.place,
      log,
    }),

    async dispose() {
      disposing.abort(new CellwrightError("kernel_start_failed", "The kernels are being shut down."));
      await Promise.all([...live].map((kernel) => kernel.dispose()));
      await Promise.all([...sites.values()].map((site) => site.dispose()));
    },
  };
}

/** The servers by name, each checked for access. Failures are only logged if at least one server is usable. */
async function openSites(config: RemoteConfig): Promise<Map<string, Site>> {
  const { urls, notebooksFolder, startTimeoutMs, log } = config;
  const tokenOf = await readTokens(config.token);
  const instance = randomUUID();
  const sites = new Map<string, Site>();
  for (const url of urls) {
    const server = new JupyterServer({ url, token: tokenOf(url), times: config.times, log });
    sites.set(server.name, new Site({ server, notebooksFolder, instance, startTimeoutMs, log }));
  }
  const all = [...sites.values()];
  const checks = await Promise.allSettled(all.map(({ server }) => server.check(AbortSignal.timeout(startTimeoutMs))));
  const failures = checks.filter((check) => check.status === "rejected").map(({ reason }) => reason);
  if (failures.length === all.length) throw failures[0];
  for (const failure of failures) log.warn(failure instanceof Error ? failure.message : String(failure));
  for (const [index, site] of all.entries()) if (checks[index]?.status === "fulfilled") void site.open();
  return sites;
}

/** A kernel that the server did not delete in time stays marked; a later sweep deletes it. */
async function forgetIfGone({ server, instances }: Site, kernelId: string): Promise<void> {
  if ((await server.kernels()).includes(kernelId)) return;
  await instances.forgetKernel(kernelId);
}

function infoOf(language: Language, description: string): KernelInfo {
  return { provider: "jupyter", language, description, layers: [], notes: [NOT_SANDBOXED] };
}

/** Errors that another server may not have. */
function isServersFault(error: unknown): boolean {
  return hasCode(error, "server_unreachable", "server_refused", "kernel_start_timeout", "kernel_start_failed");
}
