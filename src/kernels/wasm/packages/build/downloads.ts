import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import type { Log } from "../../../../log.ts";
import type { IndexAddress } from "../../../../packages/index-address.ts";
import { filesOnPage } from "../../../../packages/index-page.ts";
import type { FetchAnswer, FetchRequest, FetchResult } from "../../deno/install/frames.ts";
import { denoEnv, runArgs } from "../../launch.ts";
import type { Sources } from "../../sources.ts";
import { type DenoChild, startDeno } from "./deno-child.ts";
import { denyPrivate, isPrivateHost } from "./private-hosts.ts";

/** Timeout while a server sends nothing; the user watches the installation meanwhile. */
const QUIET_MS = 20_000;
/** How long a server that timed out is not asked again: otherwise each package would wait for it. */
const SILENCE_MS = 5 * 60_000;
/** The same for a server that could not be reached, which fails fast and is often fixed quickly. */
const UNREACHABLE_MS = 10_000;

const PAGE_TYPES =
  "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1, */*;q=0.01";

/** Hosts that did not answer, and until when they are not asked again. Shared by all installations. */
export type SilentHosts = Map<string, { reason: string; untilMs: number }>;

export interface DownloadConfig {
  sources: Sources;
  /** Target folder of the files; nothing else can be written. */
  folder: string;
  denoDir: string;
  distributionUrl: string;
  networkEnv: Record<string, string>;
  silentHosts: SilentHosts;
  log: Log;
  /** For tests: whether a server is outside the public internet. */
  isPrivate?: (url: URL) => Promise<boolean>;
}

/**
 * Downloads for one installation: from Pyodide's distribution, from the package index, and from hosts that the index's
 * pages name. Pages may name private hosts only if the index itself is private. Deno's permissions are fixed at the
 * start of a process, so when a page names a new host, a new process takes over. That costs 60 ms, once or twice.
 */
export interface Downloads {
  setIndex(index: IndexAddress): void;
  /** `page`: a page of the index, whose files may be fetched from now on. Never rejects. */
  fetch(url: string, options?: { page?: boolean }): Promise<FetchResult>;
  /** Aborts all downloads. */
  end(): Promise<void>;
}

export function createDownloads(config: DownloadConfig): Downloads {
  const { sources, folder, silentHosts, log } = config;
  const distribution = new URL(config.distributionUrl);
  const hosts = new Set<string>(hostsOf(distribution));
  const children = new Set<DenoChild>();
  const waiting = new Map<number, (answer: FetchAnswer) => void>();
  const { isPrivate = isPrivateHost } = config;
  // A proxy resolves names itself, and may be the only one that can.
  const hasProxy = Object.keys(config.networkEnv).some((name) => /^(https?|all)_proxy$/i.test(name));
  const isPrivateIndex = async () => index !== undefined && (await isPrivate(new URL(index.url)));
  const isRefused = async (url: URL): Promise<boolean> => {
    if (url.host === distribution.host || (index && new URL(index.url).host === url.host)) return false;
    if (hasProxy && isIP(url.hostname.replace(/^\[|\]$/g, "")) === 0) return false;
    return (await isPrivate(url)) && !(await isPrivateIndex());
  };
  let index: IndexAddress | undefined;
  let current: DenoChild | undefined;
  let lastId = 0;
  let ended = false;

  const allow = (url: URL) => {
    for (const host of hostsOf(url)) {
      if (hosts.has(host)) continue;
      hosts.add(host);
      // The old process finishes its downloads.
      current = undefined;
    }
  };

  /** The operator's own hosts may be private, and Deno has one deny list for all hosts. */
  const denied = async (): Promise<string[]> => {
    if (hasProxy || (await isPrivate(distribution)) || (await isPrivateIndex())) return [];
    return [denyPrivate()];
  };

  const start = (deny: string[]): DenoChild => {
    const child = startDeno<FetchAnswer>({
      denoFile: sources.denoFile,
      args: [
        ...runArgs({ read: [sources.hostDir], write: [folder] }),
        `--allow-net=${[...hosts].join(",")}`,
        ...deny,
        sources.fetcherFile,
        folder,
      ],
      env: { ...denoEnv(config.denoDir), ...config.networkEnv },
      report: (answer) => waiting.get(answer.id)?.(answer),
      log,
    });
    children.add(child);
    return child;
  };

  /** The process that may connect to all hosts so far; more may be added while names are resolved. */
  const fetcher = async (): Promise<DenoChild | undefined> => {
    while (!current && !ended) {
      const before = hosts.size;
      const deny = await denied();
      if (!ended && hosts.size === before) current ??= start(deny);
    }
    return ended ? undefined : current;
  };

  const ask = async (request: FetchRequest): Promise<FetchAnswer> => {
    const child = await fetcher();
    if (!child) return { id: request.id, kind: "unreachable", reason: "the downloads were ended" };
    const answered = new Promise<FetchAnswer>((resolve) => waiting.set(request.id, resolve));
    const died = child.exited.then(({ stderr }): FetchAnswer => {
      if (current === child) current = undefined;
      const reason = `the downloader ended: ${stderr.trim().slice(-500)}`;
      return { id: request.id, kind: "unreachable", reason };
    });
    child.send(request);
    return Promise.race([answered, died]).finally(() => waiting.delete(request.id));
  };

  return {
    setIndex(address) {
      index = address;
      allow(new URL(address.url));
    },
    async fetch(address, { page = false } = {}) {
      if (!URL.canParse(address)) return { kind: "unreachable", reason: `${address} is not an address` };
      const url = new URL(address);
      if (ended || !hostsOf(url).every((host) => hosts.has(host))) {
        return { kind: "unreachable", reason: `the package index does not name the host ${url.host}` };
      }
      const silent = silentHosts.get(url.host);
      if (silent && silent.untilMs > Date.now()) return { kind: "unreachable", reason: silent.reason };
      const isIndexHost = index !== undefined && new URL(index.url).host === url.host;
      const headers: Record<string, string> = page ? { accept: PAGE_TYPES } : {};
      if (isIndexHost && index?.authorization) headers.authorization = index.authorization;
      if (await isRefused(url)) {
        return { kind: "unreachable", reason: `${url.host} is not on the public internet, and not the index itself` };
      }
      lastId += 1;
      const id = lastId;
      log.debug(`fetching ${url.host}${url.pathname}`);
      const { id: _, ...result } = await ask({ id, url: url.href, headers, quietMs: QUIET_MS });
      if (result.kind === "unreachable") {
        const reason = `${url.host}: ${withoutPreamble(result.reason)}`;
        const believedMs = result.silent ? SILENCE_MS : UNREACHABLE_MS;
        silentHosts.set(url.host, { reason, untilMs: Date.now() + believedMs });
        return { kind: "unreachable", reason };
      }
      if (page && isIndexHost && result.status === 200) {
        const text = await readFile(result.file, "utf8");
        for (const named of filesOnPage(text, result.contentType, result.url)) {
          if (["http:", "https:"].includes(named.url.protocol)) allow(named.url);
        }
      }
      return result;
    },
    async end() {
      ended = true;
      for (const child of children) child.kill();
      await Promise.all([...children].map((child) => child.exited));
    },
  };
}

/** Host and port. Without a port both default ones, because http is often redirected to https. */
function hostsOf(url: URL): string[] {
  return url.port ? [`${url.hostname}:${url.port}`] : [`${url.hostname}:80`, `${url.hostname}:443`];
}

/** Removes the address and the name of the failed step, with which Deno's messages begin. */
function withoutPreamble(reason: string): string {
  return reason.replace(/^error sending request for url \(.*?\): /, "").replace(/^client error \(\w+\): /, "");
}
