import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createDownloads } from "../../../../src/kernels/wasm/packages/build/downloads.ts";
import { isPrivateHost } from "../../../../src/kernels/wasm/packages/build/private-hosts.ts";
import { findSources } from "../../../../src/kernels/wasm/sources.ts";
import { createLog } from "../../../../src/log.ts";
import { serve } from "./stand-in.ts";

test("a host is private by its address, or by where its name leads", async () => {
  const resolve = async (host: string) => {
    if (host === "gone.example") throw new Error("not found");
    return host === "inner.example" ? ["93.184.216.34", "10.0.0.5"] : ["93.184.216.34"];
  };
  const isPrivate = (url: string) => isPrivateHost(new URL(url), resolve);
  for (const url of ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/x", "http://[fd00::1]/"]) {
    expect([url, await isPrivate(url)]).toEqual([url, true]);
  }
  expect(await isPrivate("https://inner.example/")).toBe(true);
  expect(await isPrivate("https://files.example/")).toBe(false);
  expect(await isPrivate("https://gone.example/")).toBe(false);
});

describe("a page of an index", () => {
  async function start(isPrivate: (url: URL) => Promise<boolean>) {
    const neighbour = await serve((_, __, response) => response.end("inner"));
    const folder = mkdtempSync(join(tmpdir(), "cellwright-downloads-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [downloadsDir, denoDir] = [join(folder, "d"), join(folder, "deno")];
    for (const dir of [downloadsDir, denoDir]) mkdirSync(dir);
    const downloads = createDownloads({
      sources: findSources(),
      folder: downloadsDir,
      denoDir,
      distributionUrl: "http://distribution.invalid/",
      networkEnv: {},
      silentHosts: new Map(),
      log: createLog("silent"),
      isPrivate,
    });
    onTestFinished(() => downloads.end());
    return { downloads, neighbour };
  }

  /** The index names a file of the neighbour, which is then fetched. */
  async function follow(isPrivate: (url: URL, index: string) => boolean) {
    const page = { meta: { "api-version": "1.0" }, name: "x", files: [] as object[] };
    const index = await serve((_, __, response) => {
      response.setHeader("content-type", "application/vnd.pypi.simple.v1+json");
      response.end(JSON.stringify(page));
    });
    const { downloads, neighbour } = await start(async (url) => isPrivate(url, index.host));
    page.files.push({ filename: "x-1.0-py3-none-any.whl", url: `${neighbour.url}x-1.0-py3-none-any.whl`, hashes: {} });
    downloads.setIndex({ url: `${index.url}simple/` });
    const first = await downloads.fetch(`${index.url}simple/x/`, { page: true });
    const second = await downloads.fetch(`${neighbour.url}x-1.0-py3-none-any.whl`);
    return { first, second, neighbour };
  }

  test("on the public internet does not lead into the networks around us", async () => {
    // All are on loopback here; only what is known about them matters.
    const { first, second, neighbour } = await follow((url, index) => url.host !== index);
    expect(first.kind).toBe("file");
    expect(second).toMatchObject({
      kind: "unreachable",
      reason: expect.stringContaining("not on the public internet"),
    });
    expect(neighbour.hits).toEqual([]);
  });

  test("cannot lead there by a name that changes in between, either: the downloader has no right to it", async () => {
    const { first, second, neighbour } = await follow(() => false);
    expect(first).toMatchObject({ kind: "unreachable", reason: expect.stringContaining("Requires net access") });
    expect(second.kind).toBe("unreachable");
    expect(neighbour.hits).toEqual([]);
  });

  test("that is itself in one of those networks may lead there", async () => {
    const { first, second, neighbour } = await follow(() => true);
    expect([first.kind, second.kind]).toEqual(["file", "file"]);
    expect(neighbour.hits).toHaveLength(1);
  });
});
