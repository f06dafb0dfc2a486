import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { findPlaces } from "../../../../src/kernels/local/packages/places.ts";
import { openUpstream } from "../../../../src/kernels/local/packages/upstream.ts";
import { configuredIndex, pipIndex } from "../../../../src/packages/index-address.ts";
import { describeWith } from "../../../support/requirements.ts";
import { atEnd } from "../../wasm/packages/clear-up.ts";
import { serve } from "../../wasm/packages/stand-in.ts";
import { bareEnv, never } from "./session-packages.ts";

async function textOf(answer: Promise<{ response: AsyncIterable<Buffer> }>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of (await answer).response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const places = (env: NodeJS.ProcessEnv, packageIndex?: string) =>
  findPlaces({ env: { ...bareEnv, ...env }, packageIndex }, []);

test("what pip is told about indexes, folders and the way out is found", async () => {
  const found = await places({
    PIP_INDEX_URL: "https://user:s3cret@index.example/simple",
    PIP_EXTRA_INDEX_URL: "https://more.example/simple https://user@third.example/",
    PIP_FIND_LINKS: "/wheels https://links.example/ file:///other/wheels",
    HTTPS_PROXY: "proxy.example:3128",
    NO_PROXY: "localhost,.internal.example",
  });
  expect(found.indexes.map(({ url }) => url)).toEqual([
    "https://index.example/simple",
    "https://more.example/simple",
    "https://third.example/",
  ]);
  expect(found.folders).toEqual(["/wheels", "/other/wheels"]);
  expect(found.way.proxies["https:"]?.host).toBe("proxy.example:3128");
  expect((await places({ PIP_NO_INDEX: "1" })).indexes).toEqual([]);
  expect((await places({ PIP_NO_INDEX: "1" }, "https://named.example/")).indexes).toHaveLength(1);
});

test("of several indexes the first that has a package is the only one asked for it, unless the operator says otherwise", async () => {
  const several = { PIP_INDEX_URL: "https://index.example/", PIP_EXTRA_INDEX_URL: "https://own.example/" };
  expect((await places(several)).strategy).toBe("first-index");
  expect((await places({ ...several, UV_INDEX_STRATEGY: "unsafe-best-match" })).strategy).toBe("unsafe-best-match");
  expect((await places({ ...several, UV_INDEX_STRATEGY: "--nonsense" })).strategy).toBe("first-index");
});

test("a proxy is asked with its own password, and hosts of NO_PROXY are asked without it", async () => {
  const proxy = await serve((path, _, response) => response.end(`proxied ${path}`));
  const index = await serve((_, __, response) => response.end("direct"));
  const { indexes, way } = await places(
    { HTTP_PROXY: proxy.url.replace("//", "//me:pass@"), NO_PROXY: "127.0.0.1" },
    "http://index.invalid/simple/",
  );
  const upstream = openUpstream([...indexes, { url: index.url }], way);
  expect(await textOf(upstream.get(new URL("http://index.invalid/simple/a/"), {}, never))).toBe(
    "proxied http://index.invalid/simple/a/",
  );
  expect(proxy.requests[0]?.headers["proxy-authorization"]).toBe(`Basic ${btoa("me:pass")}`);
  expect(await textOf(upstream.get(new URL(index.url), {}, never))).toBe("direct");
});

test("a proxy's password may contain a percent sign that was not encoded", async () => {
  const proxy = await serve((_, __, response) => response.end("proxied"));
  const HTTP_PROXY = proxy.url.replace("//", "//me:50%@");
  const { indexes, way } = await places({ HTTP_PROXY }, "http://index.invalid/simple/");
  const upstream = openUpstream(indexes, way);
  expect(await textOf(upstream.get(new URL("http://index.invalid/simple/a/"), {}, never))).toBe("proxied");
  expect(proxy.requests[0]?.headers["proxy-authorization"]).toBe(`Basic ${btoa("me:50%")}`);
});

test("a page of a public index does not lead into the networks around us, not through a redirect either", async () => {
  const { host, url, hits } = await serve((_, __, response) => response.end("secret"));
  const { way } = await places({});
  const upstream = openUpstream([{ url: "https://index.example/simple/" }], way);
  const local = new URL(url.replace("127.0.0.1", "localhost"));
  await expect(upstream.get(new URL(url), {}, never)).rejects.toThrow("127.0.0.1 is not on the public internet");
  await expect(upstream.get(local, {}, never)).rejects.toThrow("localhost is not on the public internet");

  const proxy = await serve((_, __, response) => response.writeHead(302, { location: `http://${host}/x` }).end());
  const proxied = await places({ HTTP_PROXY: proxy.url, NO_PROXY: "127.0.0.1" }, "http://index.invalid/");
  const redirected = openUpstream(proxied.indexes, proxied.way).get(new URL("http://index.invalid/a/"), {}, never);
  await expect(redirected).rejects.toThrow("127.0.0.1 is not on the public internet");
  expect([hits, proxy.hits]).toEqual([[], ["http://index.invalid/a/"]]);
});

describeWith("index", "the real index", () => {
  test("is reached through a proxy, which sees only its name", async () => {
    const asked: string[] = [];
    const server = createServer((_, response) => response.writeHead(500).end());
    server.on("connect", (request, client) => {
      asked.push(request.url ?? "");
      const [name, port] = (request.url ?? "").split(":");
      const target = connect(Number(port), name, () => client.write("HTTP/1.1 200 OK\r\n\r\n"));
      target.pipe(client).pipe(target);
      for (const socket of [target, client]) socket.on("error", () => socket.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    atEnd(() => server.closeAllConnections());
    atEnd(() => server.close());
    const HTTPS_PROXY = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const index = configuredIndex(undefined, process.env) ?? (await pipIndex(process.env));
    const { way } = await findPlaces({ env: { ...process.env, HTTPS_PROXY, NO_PROXY: "", no_proxy: "" } }, []);
    const page = new URL(`${index?.url.replace(/\/$/, "")}/six/`);
    const { response } = await openUpstream(index ? [index] : [], way).get(page, {}, never);
    expect(response.statusCode).toBe(200);
    response.destroy();
    if (page.protocol === "https:") expect(asked[0]).toBe(`${page.hostname}:${page.port || 443}`);
  });
});
