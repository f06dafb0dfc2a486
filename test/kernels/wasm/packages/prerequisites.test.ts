import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readDistribution } from "../../../../src/kernels/wasm/packages/build/distribution.ts";
import { networkEnv } from "../../../../src/kernels/wasm/packages/build/network-env.ts";
import { announce, isPresent } from "../../../../src/kernels/wasm/packages/presence.ts";
import { findSources } from "../../../../src/kernels/wasm/sources.ts";
import { configuredIndex, pipIndex } from "../../../../src/packages/index-address.ts";
import { filesOnPage } from "../../../../src/packages/index-page.ts";
import { ago } from "../../../support/ago.ts";
import { temporaryFolder, testPackages } from "./test-packages.ts";

describe("the address of the index", () => {
  test("is the option's, else PIP_INDEX_URL, else UV_DEFAULT_INDEX", () => {
    const env = { PIP_INDEX_URL: "https://pip.test/simple", UV_DEFAULT_INDEX: "main=https://uv.test/simple" };
    expect(configuredIndex("https://option.test/simple", env)?.url).toBe("https://option.test/simple");
    expect(configuredIndex(undefined, env)?.url).toBe("https://pip.test/simple");
    expect(configuredIndex(undefined, { ...env, PIP_INDEX_URL: "" })?.url).toBe("https://uv.test/simple");
    expect(configuredIndex(undefined, {})).toBeUndefined();
  });

  test("is refused when it is no address, without showing what may be a password", () => {
    expect(() => configuredIndex("me:secret@index", {})).toThrow("in --package-index is not an http or https URL");
    expect(() => configuredIndex(undefined, { PIP_INDEX_URL: "file:///secret" })).not.toThrow("secret");
  });

  test.skipIf(process.platform === "win32")("is pip's, when pip is there", async () => {
    const folder = temporaryFolder("pip");
    const pip = (script: string) => {
      writeFileSync(join(folder, "pip"), `#!/bin/sh\n${script}\n`);
      chmodSync(join(folder, "pip"), 0o755);
    };
    pip('[ "$1 $2 $3" = "config get global.index-url" ] && echo https://configured.test/simple');
    expect((await pipIndex({ PATH: folder }))?.url).toBe("https://configured.test/simple");
    pip('[ "$1" = download ] && echo "  -i, --index-url <url>  Base URL (default https://usual.test/simple). This"');
    expect((await pipIndex({ PATH: folder }))?.url).toBe("https://usual.test/simple");
    pip("exit 1");
    expect(await pipIndex({ PATH: folder })).toBeUndefined();
    expect(await pipIndex({ PATH: temporaryFolder("nothing") })).toBeUndefined();
  });
});

test("the distribution's address is the one in Pyodide, unless another is given", () => {
  const sources = findSources();
  const { url, packages } = readDistribution(sources, undefined);
  expect(new URL(url).pathname).toContain(`/v${sources.versions.pyodide}/`);
  expect(packages.numpy?.file_name).toContain("wasm32");
  expect(readDistribution(sources, "https://mirror.test/pyodide").url).toBe("https://mirror.test/pyodide/");
});

test("modules are known by the packages that provide them", () => {
  const { packages } = testPackages();
  const provided = Object.fromEntries(
    ["PIL", "cv2", "sklearn", "yaml", "bs4", "dateutil", "numpy", "sympy", "charset_normalizer", "docx"].map(
      (module) => [module, packages.distributionFor(module)],
    ),
  );
  expect(provided).toEqual({
    PIL: "pillow",
    cv2: "opencv-python",
    sklearn: "scikit-learn",
    yaml: "pyyaml",
    bs4: "beautifulsoup4",
    dateutil: "python-dateutil",
    numpy: "numpy",
    sympy: "sympy",
    charset_normalizer: "charset-normalizer",
    docx: "python-docx",
  });
  for (const module of ["_private", "js", "pyodide", "a-b", "", "a.b", "win32api"]) {
    expect(packages.distributionFor(module), module).toBeUndefined();
  }
});

test("an installation knows the proxy and the certificates, and nothing else of the environment", () => {
  const env = { HTTPS_PROXY: "http://p", no_proxy: "x", REQUESTS_CA_BUNDLE: "/ca.pem", SECRET: "s", PATH: "/bin" };
  expect(networkEnv(env)).toEqual({
    HTTPS_PROXY: "http://p",
    no_proxy: "x",
    DENO_CERT: "/ca.pem",
    DENO_TLS_CA_STORE: "system,mozilla",
  });
  expect(networkEnv({ SSL_CERT_FILE: "/a", NODE_EXTRA_CA_CERTS: "/b" }).DENO_CERT).toBe("/a");
});

describe("a page of an index", () => {
  test("names files in JSON", () => {
    const page = { files: [{ filename: "a.whl", url: "../../f/a.whl", hashes: { sha256: "1" } }, { filename: 1 }, {}] };
    const files = filesOnPage(JSON.stringify(page), "application/vnd.pypi.simple.v1+json", "https://i.test/simple/a/");
    expect(files).toEqual([{ name: "a.whl", url: new URL("https://i.test/f/a.whl"), sha256: "1" }]);
    for (const odd of ["not json", "null", "[]", '{"files":{}}']) expect(filesOnPage(odd, "json", "")).toEqual([]);
  });

  test("names files in HTML", () => {
    const hash = "a".repeat(64);
    const html = `<a href="https://f.test/x%20y.whl?a=1&amp;b=2#sha256=${hash}" data-x="1">x</a><A class=q HREF='b.whl'>b</A>`;
    expect(filesOnPage(html, "text/html; charset=utf-8", "https://i.test/simple/a/")).toEqual([
      { name: "x y.whl", url: new URL("https://f.test/x%20y.whl?a=1&b=2"), sha256: hash },
      { name: "b.whl", url: new URL("https://i.test/simple/a/b.whl"), sha256: undefined },
    ]);
  });
});

describe("a presence", () => {
  const folder = temporaryFolder("presence");

  test("keeps others out until it ends", async () => {
    const file = join(folder, "one");
    const presence = await announce(file);
    expect(await announce(file)).toBeUndefined();
    await presence?.end();
    await presence?.end();
    const next = await announce(file);
    expect(next).toBeDefined();
    await presence?.end();
    expect(await isPresent(file)).toBe(true);
    await next?.end();
    expect(await isPresent(file)).toBe(false);
  });

  test("of a process that is gone, or silent for long, is taken over", async () => {
    const gone = join(folder, "gone");
    const pid = Number(execFileSync(process.execPath, ["-p", "process.pid"], { encoding: "utf8" }));
    await announce(gone);
    const mine = JSON.parse(readFileSync(gone, "utf8"));
    writeFileSync(gone, JSON.stringify({ ...mine, pid }));
    expect(await isPresent(gone)).toBe(false);
    expect(await announce(gone)).toBeDefined();

    const silent = join(folder, "silent");
    writeFileSync(silent, JSON.stringify({ ...mine, place: "another machine" }));
    expect(await isPresent(silent)).toBe(true);
    const longAgo = ago(10 * 60_000);
    utimesSync(silent, longAgo, longAgo);
    expect(await isPresent(silent)).toBe(false);
  });
});
