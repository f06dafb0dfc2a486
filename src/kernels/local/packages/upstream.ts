import { lookup } from "node:dns";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, createSecureContext, rootCertificates, type SecureContext } from "node:tls";
import { isPrivateAddress } from "../../../isolation/network/addresses.ts";
import { authorizationOf, type IndexAddress } from "../../../packages/index-address.ts";
import type { NetworkWay } from "./places.ts";

/** Inactivity timeout; short, because the user is waiting. */
const QUIET_MS = 20_000;
const MAX_REDIRECTS = 5;

export interface Upstream {
  /** Sends a GET and follows redirects. Rejects with a readable reason that contains no secrets of the URL. */
  get(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<{ response: IncomingMessage; url: URL }>;
}

/** Fetches from package indexes and from the hosts that their pages link to, through the machine's proxy if set. */
export function openUpstream(indexes: IndexAddress[], way: NetworkWay): Upstream {
  const indexHosts = new Set(indexes.map(({ url }) => new URL(url).host));
  const privateIndexes = new Set<string>();
  let context: SecureContext | undefined;
  const secureContext = () => {
    context ??= createSecureContext({ ca: [...new Set([...rootCertificates, ...way.certificates])] });
    return context;
  };

  /** SSRF guard: pages may link to public hosts; to private networks only if an index is itself in one. */
  const mayBePrivate = (url: URL) => indexHosts.has(url.host) || privateIndexes.size > 0;
  const guarded = (url: URL): LookupFunction => {
    return (hostname, options, callback) => {
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        const found = addresses ?? [];
        if (!error && indexHosts.has(url.host) && found.some(({ address }) => isPrivateAddress(address)))
          privateIndexes.add(url.host);
        const usable = mayBePrivate(url) ? found : found.filter(({ address }) => !isPrivateAddress(address));
        const [first] = usable;
        if (error || !first) callback(error ?? refusal(url), "", 0);
        else if (options.all) callback(null, usable);
        else callback(null, first.address, first.family);
      });
    };
  };

  const ask = async (url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> => {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host) && isPrivateAddress(host)) {
      if (indexHosts.has(url.host)) privateIndexes.add(url.host);
      else if (!mayBePrivate(url)) throw refusal(url);
    }
    const isTrusted = way.trustedHosts.some((trusted) => [url.hostname, url.host].includes(trusted));
    const proxy = isDirect(url, way.direct) ? undefined : way.proxies[url.protocol];
    const options = { headers: { ...headers, host: url.host }, signal, agent: false as const };
    if (url.protocol === "http:") {
      if (!proxy) return answerOf(requestHttp(url, { ...options, lookup: guarded(url) }));
      const to = { host: proxy.hostname, port: proxy.port || 80, path: url.href };
      return answerOf(requestHttp({ ...to, ...options, headers: { ...options.headers, ...proxyHeaders(proxy) } }));
    }
    const tls = { secureContext: secureContext(), rejectUnauthorized: !isTrusted, servername: isIP(host) ? "" : host };
    if (!proxy) return answerOf(requestHttps(url, { ...options, ...tls, lookup: guarded(url) }));
    const socket = await tunnel(proxy, url, secureContext(), signal);
    const createConnection = () => connectTls({ ...tls, socket, host });
    return answerOf(requestHttps(url, { ...options, createConnection }));
  };

  return {
    async get(address, headers, signal) {
      let url = address;
      for (let redirects = 0; ; redirects += 1) {
        const own = indexes.find((index) => new URL(index.url).host === url.host)?.authorization;
        const response = await ask(url, { ...headers, ...(own && { authorization: own }) }, signal).catch((error) => {
          throw new Error(`${url.host}: ${reasonOf(error)}`);
        });
        const next = isRedirect(response.statusCode) ? response.headers.location : undefined;
        if (next === undefined || !URL.canParse(next, url.href)) return { response, url };
        response.destroy();
        const target = new URL(next, url);
        const isWorse = url.protocol === "https:" && target.protocol !== "https:";
        if (redirects >= MAX_REDIRECTS || isWorse || !["http:", "https:"].includes(target.protocol)) {
          throw new Error(`${url.host}: its redirect is not followed (too many, or to an address that is not secure)`);
        }
        url = target;
      }
    },
  };
}

function answerOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.setTimeout(QUIET_MS, () => request.destroy(new Error("no answer")));
    request.once("response", resolve);
    request.once("error", reject);
    request.end();
  });
}

/** A CONNECT tunnel through the proxy, which sees only the host's name. */
function tunnel(proxy: URL, url: URL, secureContext: SecureContext, signal: AbortSignal): Promise<Socket> {
  const isSecure = proxy.protocol === "https:";
  return new Promise((resolve, reject) => {
    const authority = `${url.hostname}:${url.port || 443}`;
    const connect = (isSecure ? requestHttps : requestHttp)({
      method: "CONNECT",
      host: proxy.hostname,
      port: proxy.port || (isSecure ? 443 : 80),
      path: authority,
      headers: { host: authority, ...proxyHeaders(proxy) },
      agent: false,
      signal,
      ...(isSecure && { secureContext }),
    });
    connect.setTimeout(QUIET_MS, () => connect.destroy(new Error("no answer from the proxy")));
    connect.once("error", (error) => reject(new Error(`the proxy ${proxy.host}: ${reasonOf(error)}`)));
    connect.once("connect", (response, socket) => {
      if (response.statusCode === 200) return resolve(socket);
      socket.destroy();
      reject(new Error(`the proxy ${proxy.host} answered with status ${response.statusCode}`));
    });
    connect.end();
  });
}

function proxyHeaders(proxy: URL): Record<string, string> {
  const authorization = authorizationOf(proxy);
  return authorization === undefined ? {} : { "proxy-authorization": authorization };
}

/** NO_PROXY: names, including their subdomains, with or without a port; `*` matches everything. */
function isDirect(url: URL, direct: string[]): boolean {
  return direct.some((entry) => {
    const name = entry.toLowerCase().replace(/^\*?\./, "");
    return name === "*" || [url.hostname, url.host].some((host) => host === name || host.endsWith(`.${name}`));
  });
}

function isRedirect(status: number | undefined): boolean {
  return status !== undefined && [301, 302, 303, 307, 308].includes(status);
}

function refusal(url: URL): Error {
  return new Error(`${url.hostname} is not on the public internet, and not the index itself`);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A host with several addresses fails with an error for each.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error && first.message ? first.message : (error as NodeJS.ErrnoException).code || error.name;
}
