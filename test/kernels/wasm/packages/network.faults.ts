import { writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createAuthority, hasOpenssl } from "../../../support/authority.ts";
import { requirement } from "../../../support/requirements.ts";
import { builders } from "./builder.ts";
import { atEnd } from "./clear-up.ts";
import { describeWithMicropip } from "./micropip-wheel.ts";
import { serve, serveFiles, serveIndex, sourcesWithLock } from "./stand-in.ts";
import { contents, failure, temporaryFolder, testPackages } from "./test-packages.ts";
import { type Wheel, wheel } from "./wheels.ts";

describeWithMicropip("the network of an installation", (micropip) => {
  const thing = wheel("thing");
  const folder = temporaryFolder("wheels");
  writeFileSync(join(folder, micropip.file), micropip.data);

  test("file hosts that the index names are asked, others are not", async () => {
    const [files, other] = await Promise.all([serveFiles([thing]), serveFiles([thing])]);
    const index = await serveIndex(
      [thing, wheel("sly", { requires: [`thing @ ${other.url}${thing.file}`] }), wheel("lost")],
      { filesUrl: files.url, metadata: false },
    );
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    expect(contents(await image(["thing"]))).toEqual(["thing 1.0 (index)"]);
    expect(files.hits).toEqual([`/${thing.file}`]);
    expect(index.hits).toEqual(["/simple/thing/"]);
    expect(other.hits).toEqual([]);

    const sly = await serveIndex([wheel("sly", { requires: [`thing @ ${other.url}${thing.file}`] })]);
    const named = testPackages({ packageIndex: `${sly.url}simple`, packageDir: folder });
    const { message } = await failure(named.image(["sly"]));
    expect(message).toContain("thing is requested from the URL");
    expect(message).toContain("(needed by sly 1.0)");
    expect(other.hits).toEqual([]);
  });

  test("a redirect to a host that the index does not name is not followed", async () => {
    const other = await serveFiles([thing]);
    const files = await serve((path, _, response) => {
      response.writeHead(302, { location: `${other.url.slice(0, -1)}${path}` }).end();
    });
    const index = await serveIndex([thing], { filesUrl: files.url, metadata: false });
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    expect((await failure(image(["thing"]))).message).toContain("a host that the index does not name");
    expect(other.hits).toEqual([]);
    expect(files.hits.length).toBeGreaterThan(0);
  });

  test("a name and password in the index's address go to the index only", async () => {
    const files = await serveFiles([thing]);
    const index = await serveIndex([thing], { filesUrl: files.url, metadata: false });
    const address = `http://me:s%40cret@${index.host}/simple`;
    const { image } = testPackages({
      packageIndex: undefined,
      env: { PIP_INDEX_URL: address },
      packageDir: folder,
    });
    await image(["thing"]);
    const expected = `Basic ${Buffer.from("me:s@cret").toString("base64")}`;
    expect(index.requests.map((request) => request.headers.authorization)).toEqual([expected]);
    expect(files.requests.map((request) => request.headers.authorization)).toEqual([undefined]);
    const { message } = await failure(image(["nosuch"]));
    expect(message).not.toContain("cret");
  });

  test("HTTP_PROXY is used, and NO_PROXY is not", async () => {
    const index = await serveIndex([thing], { filesUrl: "http://files.invalid/files/" });
    const proxy = await serve(async (path, request, response) => {
      const target = new URL(path);
      const answer = await fetch(`${index.url}${target.pathname.slice(1)}`, {
        headers: { accept: String(request.headers.accept ?? "*/*") },
      });
      response.setHeader("content-type", answer.headers.get("content-type") ?? "");
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    // Names that do not resolve: only a proxy can reach them.
    const env = { HTTP_PROXY: proxy.url, NO_PROXY: index.host.split(":")[0] };
    const viaProxy = testPackages({ packageIndex: "http://index.invalid/simple", packageDir: folder, env });
    expect(contents(await viaProxy.image(["thing"]))).toEqual(["thing 1.0 (index)"]);
    expect(proxy.hits).toContain("http://index.invalid/simple/thing/");
    expect(proxy.hits).toContain(`http://files.invalid/files/${thing.file}`);
    const asked = proxy.hits.length;
    const own = await serveIndex([thing]);
    const direct = testPackages({ packageIndex: `${own.url}simple`, packageDir: folder, env });
    expect(contents(await direct.image(["thing"]))).toEqual(["thing 1.0 (index)"]);
    expect(own.hits).toContain("/simple/thing/");
    expect(proxy.hits).toHaveLength(asked);
  });

  test("a page that comes through a proxy names no file of a private network", async () => {
    const inner = await serveFiles([thing]);
    const index = await serveIndex([thing], { filesUrl: inner.url });
    const proxy = await serve(async (path, request, response) => {
      const headers = { accept: String(request.headers.accept ?? "*/*") };
      const answer = await fetch(`${index.url}${new URL(path).pathname.slice(1)}`, { headers });
      response.setHeader("content-type", answer.headers.get("content-type") ?? "");
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    const env = { HTTP_PROXY: proxy.url, NO_PROXY: inner.host.split(":")[0] };
    const { image } = testPackages({ packageIndex: "http://index.invalid/simple", packageDir: folder, env });
    const { message } = await failure(image(["thing"]));
    expect(message).toContain("not on the public internet");
    expect(inner.hits).toEqual([]);
  });

  test("without an address, micropip's own index is asked, and no other", async () => {
    const targets = new Set<string>();
    const proxy = createTcpServer((socket) => {
      socket.once("data", (data) => {
        targets.add(/^CONNECT (\S+) /.exec(data.toString())?.[1] ?? data.toString());
        socket.end("HTTP/1.1 502 No\r\n\r\n");
      });
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    atEnd(() => proxy.close());
    const env = { HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
    const { image } = testPackages({ packageIndex: undefined, packageDir: folder, env });
    const { message } = await failure(image(["thing"]));
    expect(message).toContain("The package index could not be queried for thing");
    expect(targets.size).toBe(1);
  });

  test("a silent server can be aborted, which leaves nothing behind", async () => {
    let asked = () => {};
    const wasAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const distribution = await serve(() => asked());
    const slow = testPackages({ pyodideBaseUrl: distribution.url }, sourcesWithLock([micropip, thing]));
    const abort = new AbortController();
    const messages: string[] = [];
    const image = slow.image(["thing"], { signal: abort.signal, progress: (message) => messages.push(message) });
    await wasAsked;
    abort.abort(new Error("enough"));
    await expect(image).rejects.toThrow("enough");
    expect(messages).toEqual(["looking for thing"]);
    expect(slow.leftovers()).toEqual([]);
  });

  test("disposing ends installations on their way", async () => {
    let asked = () => {};
    const wasAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const distribution = await serve(() => asked());
    const slow = testPackages({ pyodideBaseUrl: distribution.url }, sourcesWithLock([micropip, thing]));
    const image = failure(slow.image(["thing"]));
    await wasAsked;
    await slow.packages.dispose();
    expect((await image).message).toContain("shutting down");
    expect(slow.leftovers()).toEqual([]);
  });

  const hasBubblewrap = requirement("bubblewrap").ok;
  test.skipIf(!hasBubblewrap)("a folder of wheels is enough on a machine without any network", async () => {
    const complete = temporaryFolder("wheels");
    for (const { file, data } of [micropip, thing]) writeFileSync(join(complete, file), data);
    const build = builders();
    const around = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent"];
    const config = { cacheDir: temporaryFolder("cache"), packageDir: complete, env: {} };
    const { image, error } = await build(config, ["thing"], { around }).ended;
    expect(error).toBeUndefined();
    expect(image?.packages).toEqual([{ name: "thing", version: "1.0", source: "folder" }]);
    const { error: offline } = await build(config, ["other"], { around }).ended;
    expect(offline).toContain("other");
  });

  describe.skipIf(!hasOpenssl)("with a certificate of one's own (needs openssl)", () => {
    test("an https index works when SSL_CERT_FILE names the authority, and not without", async () => {
      const authority = await serveSecurely([thing]);
      const secure = (env: NodeJS.ProcessEnv) =>
        testPackages({ packageIndex: `${authority.url}simple`, packageDir: folder, env }).image(["thing"]);
      expect(contents(await secure({ SSL_CERT_FILE: authority.certificate }))).toEqual(["thing 1.0 (index)"]);
      expect(contents(await secure({ NODE_EXTRA_CA_CERTS: authority.certificate }))).toEqual(["thing 1.0 (index)"]);
      const { message, hint } = await failure(secure({}));
      expect(message).toContain("certificate");
      expect(hint).toContain("SSL_CERT_FILE");
    });
  });
});

/** An index with a certificate of an unknown authority. */
async function serveSecurely(wheels: Wheel[]): Promise<{ url: string; certificate: string }> {
  const authority = createAuthority();
  atEnd(authority.remove);
  const index = await serveIndex(wheels, { metadata: false });
  const server = createServer(authority.server, async (request, response) => {
    const headers = { accept: String(request.headers.accept ?? "*/*") };
    const answer = await fetch(`${index.url}${request.url?.slice(1)}`, { headers });
    const text = Buffer.from(await answer.arrayBuffer());
    const isPage = answer.headers.get("content-type")?.includes("json");
    response.setHeader("content-type", answer.headers.get("content-type") ?? "");
    response
      .writeHead(answer.status)
      .end(isPage ? text.toString().replaceAll(index.url, `https://${request.headers.host}/`) : text);
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `https://localhost:${(server.address() as AddressInfo).port}/`;
  return { url, certificate: authority.certificateFile };
}
