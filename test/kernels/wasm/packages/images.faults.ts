import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { openImage } from "../../../../src/kernels/wasm/packages/image.ts";
import { linkInto } from "../../../../src/kernels/wasm/packages/packages.ts";
import { findSources } from "../../../../src/kernels/wasm/sources.ts";
import { ago } from "../../../support/ago.ts";
import { builders } from "./builder.ts";
import { describeWithMicropip } from "./micropip-wheel.ts";
import { serve, serveIndex } from "./stand-in.ts";
import { closedUrl, contents, failure, fileIn, temporaryFolder, testPackages } from "./test-packages.ts";
import { wheel } from "./wheels.ts";
import type { ZipEntry } from "./zip.ts";

describeWithMicropip("an image", (micropip) => {
  const folder = temporaryFolder("wheels");
  writeFileSync(join(folder, micropip.file), micropip.data);
  const thing = wheel("thing", {
    files: {
      "thing/__init__.py": "value = 1\n",
      "thing/tests/test_thing.py": "assert True\n",
      "thing/template.py": "this is {{ not }} Python",
      "thing-1.0.data/purelib/moved.py": "here = True\n",
      "thing-1.0.data/scripts/run": "#!/bin/sh\n",
    },
  });

  test("is unpacked, compiled, read-only, and has its lock beside it", async () => {
    const index = await serveIndex([thing]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const made = await image(["thing"]);
    expect(readdirSync(made.siteDir).sort()).toEqual(["__pycache__", "moved.py", "thing", "thing-1.0.dist-info"]);
    expect(readdirSync(join(made.siteDir, "thing/__pycache__"))).toEqual(["__init__.cpython-314.pyc"]);
    expect(existsSync(join(made.siteDir, "thing/tests/__pycache__"))).toBe(false);
    // The second word says that the bytecode is hash-based (1) and unchecked (not 2).
    const compiled = readFileSync(join(made.siteDir, "thing/__pycache__/__init__.cpython-314.pyc"));
    expect(compiled.readUInt32LE(4)).toBe(1);
    expect(lstatSync(join(made.siteDir, "thing/__init__.py")).mode & 0o777).toBe(0o444);
    expect(JSON.parse(readFileSync(join(made.siteDir, "../lock.json"), "utf8"))).toEqual([
      {
        name: "thing",
        version: "1.0",
        source: "index",
        file: thing.file,
        sha256: thing.sha256,
        requires: [],
      },
    ]);
    expect(made.sizeBytes).toBeGreaterThan(100);
  });

  test("is there at once the second time, without any server", async () => {
    const index = await serveIndex([thing]);
    const config = { packageIndex: `${index.url}simple`, packageDir: folder, cacheDir: temporaryFolder("cache") };
    const first = await testPackages(config).image(["thing"]);
    const hits = index.hits.length;
    const again = testPackages(config);
    expect(await again.image([" Thing ", "thing"])).toEqual(first);
    expect(index.hits).toHaveLength(hits);
    expect(await again.packages.list()).toEqual([first]);
    // The same packages written differently are another request, and the same image.
    expect((await again.image(["thing>=1"])).id).toBe(first.id);
  });

  test("is made once for those who ask at the same time, also in two processes", async () => {
    const index = await serveIndex([thing]);
    const config = {
      cacheDir: temporaryFolder("cache"),
      packageIndex: `${index.url}simple`,
      pyodideBaseUrl: closedUrl,
      packageDir: folder,
      env: {},
    };
    const build = builders();
    const [one, other] = await Promise.all([1, 2].map(() => build(config, ["thing"]).ended));
    expect(one?.error ?? other?.error).toBeUndefined();
    expect(one?.image).toEqual(other?.image);
    expect(index.hits.filter((path) => path === `/files/${thing.file}`)).toHaveLength(1);

    const { image } = testPackages({ ...config, cacheDir: temporaryFolder("cache") });
    const both = await Promise.all([image(["thing"]), image(["thing"])]);
    expect(both[0]).toEqual(both[1]);
    expect(index.hits.filter((path) => path === `/files/${thing.file}`)).toHaveLength(2);
  });

  test("of which one asker leaves is still made for the other", async () => {
    const index = await serveIndex([thing]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const abort = new AbortController();
    const left = failure(image(["thing"], { signal: abort.signal }));
    const stayed = image(["thing"]);
    abort.abort(new Error("gone"));
    expect((await left).message).toBe("gone");
    expect(contents(await stayed)).toEqual(["thing 1.0 (index)"]);
  });

  test("whose builder was killed is made by the next, which clears up", async () => {
    let stalled = () => {};
    const isStalled = new Promise<void>((resolve) => {
      stalled = resolve;
    });
    const index = await serveIndex([thing]);
    const stalling = await serve((path, _, response) => {
      if (path.startsWith("/files/")) return stalled();
      response.setHeader("content-type", "application/vnd.pypi.simple.v1+json");
      const files = [{ filename: thing.file, url: `/files/${thing.file}`, hashes: {} }];
      response.end(JSON.stringify({ name: "thing", files }));
    });
    const cacheDir = temporaryFolder("cache");
    const config = { cacheDir, pyodideBaseUrl: closedUrl, packageDir: folder, env: {} };
    const { child, ended } = builders()({ ...config, packageIndex: `${stalling.url}simple` }, ["thing"]);
    await isStalled;
    child.kill("SIGKILL");
    await ended;
    const next = testPackages({ ...config, packageIndex: `${index.url}simple` });
    expect(next.leftovers().length).toBeGreaterThan(0);
    expect(await next.packages.list()).toEqual([]);
    expect(contents(await next.image(["thing"]))).toEqual(["thing 1.0 (index)"]);
    expect(next.leftovers().filter((name) => name.length === 16)).toEqual([]);
  });

  test("that is broken is made again", async () => {
    const index = await serveIndex([thing]);
    const { image, cacheDir } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const made = await image(["thing"]);
    const file = join(made.siteDir, "thing/__init__.py");
    const manifest = join(made.siteDir, "../image.json");
    const imageDir = dirname(made.siteDir);
    const saved = [file, manifest].map((path) => [path, readFileSync(path)] as const);
    const damages = {
      "a missing file": () => rmSync(file),
      "no manifest": () => rmSync(manifest),
      "half a manifest": () => truncateSync(manifest, 200),
      "a short file": () => {
        chmodSync(file, 0o644);
        truncateSync(file, 3);
      },
    };
    for (const [name, damage] of Object.entries(damages)) {
      for (const [path, content] of saved) {
        rmSync(path, { force: true });
        writeFileSync(path, content);
      }
      expect(await openImage(imageDir), name).toBeDefined();
      damage();
      expect(await openImage(imageDir), name).toBeUndefined();
    }
    expect((await image(["thing"])).id).toBe(made.id);
    expect(readFileSync(file, "utf8")).toBe("value = 1\n");
    expect(readdirSync(join(cacheDir, "images"))).toEqual([made.id]);
  });

  test("that was unused for long is pruned, and built again when requested", async () => {
    const other = wheel("other");
    const index = await serveIndex([thing, other]);
    const { image, packages } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const [old, recent] = [await image(["thing"]), await image(["other"])];
    const longAgo = ago(100_000);
    utimesSync(join(old.siteDir, "../image.json"), longAgo, longAgo);
    expect(await packages.prune({ unusedForMs: 50_000 })).toEqual([old]);
    expect(existsSync(old.siteDir)).toBe(false);
    expect(await packages.list()).toEqual([recent]);
    expect((await image(["thing"])).id).toBe(old.id);
    expect(await packages.prune({ unusedForMs: 0 })).toHaveLength(2);
    expect(await packages.list()).toEqual([]);
  });

  test("is made from a fresh Python when the kept one is broken", async () => {
    const index = await serveIndex([thing]);
    const { image, cacheDir } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const { versions } = findSources();
    const name = `python-${versions.pyodide}-${versions.deno}-${process.platform}-${process.arch}`;
    writeFileSync(join(cacheDir, "packages", name), "no memory at all");
    expect(contents(await image(["thing"]))).toEqual(["thing 1.0 (index)"]);
    expect(lstatSync(join(cacheDir, "packages", name)).size).toBeGreaterThan(1e6);
  });

  test("of hostile wheels is refused as a whole, with all reasons, and nothing of it stays", async () => {
    const hostile: Record<string, ZipEntry> = {
      "evil-up": { name: "../../../../evil.py", data: "" },
      "evil-middle": { name: "a/../../../evil.py", data: "" },
      "evil-absolute": { name: "/tmp/cellwright-evil.py", data: "" },
      "evil-windows": { name: "..\\..\\evil.py", data: "" },
      "evil-data": { name: "evil-1.0.data/purelib/../../../evil.py", data: "" },
      "evil-link": { name: "link", data: "/etc/passwd", mode: 0o120777 },
    };
    const wheels = Object.entries(hostile).map(([name, entry]) => wheel(name, { more: [entry] }));
    const index = await serveIndex([...wheels, thing]);
    const cacheDir = temporaryFolder("cache");
    const evil = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder, cacheDir });
    const { code, message } = await failure(evil.image([...Object.keys(hostile), "thing"]));
    expect(code).toBe("package_error");
    for (const name of Object.keys(hostile)) expect(message).toContain(`${name} was refused`);
    expect(message).toContain("'../../../../evil.py' leads out of its folder");
    expect(message).toContain("'link' is a link or a device");
    expect(evil.leftovers()).toEqual([]);
    expect(await evil.packages.list()).toEqual([]);
    const files = readdirSync(cacheDir, { recursive: true, encoding: "utf8" });
    expect(files.filter((path) => path.includes("evil"))).toEqual([]);
    expect(existsSync("/tmp/cellwright-evil.py")).toBe(false);
  });

  test("of a wheel that lacks a file of its own list, or is no archive, is refused", async () => {
    const index = await serveIndex([
      wheel("hollow", { missing: ["hollow/more.py"] }),
      { ...wheel("rubbish"), data: Buffer.from("not a zip"), sha256: sha256("not a zip") },
    ]);
    const { image, packages, leftovers } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    expect((await failure(image(["hollow"]))).message).toContain("hollow/more.py is missing");
    expect((await failure(image(["rubbish"]))).message).toContain("rubbish could not be installed");
    expect(leftovers()).toEqual([]);
    expect(await packages.list()).toEqual([]);
  });

  test("may have a version in an unusual spelling", async () => {
    const index = await serveIndex([wheel("dated", { version: "2026.02.01" })]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    const made = await image(["dated"]);
    expect(contents(made)).toEqual(["dated 2026.2.1 (index)"]);
    const site = temporaryFolder("site");
    await linkInto(made, site);
    await linkInto(made, site);
  });

  test("never runs what is in a package", async () => {
    const loud = wheel("loud", { files: { "loud/__init__.py": "raise SystemExit('I was run')\n" } });
    const index = await serveIndex([loud]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folder });
    expect(fileIn(await image(["loud"]), "loud/__init__.py")).toContain("I was run");
  });
});

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
