import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWithMicropip } from "./micropip-wheel.ts";
import { serve, serveFiles, serveIndex, sourcesWithLock } from "./stand-in.ts";
import { closedUrl, contents, failure, fileIn, temporaryFolder, testPackages } from "./test-packages.ts";
import { type Wheel, wheel } from "./wheels.ts";

function folderOf(wheels: Wheel[]): string {
  const folder = temporaryFolder("wheels");
  for (const { file, data } of wheels) writeFileSync(join(folder, file), data);
  return folder;
}

describeWithMicropip("where packages come from", (micropip) => {
  const inFolder = wheel("thing", { version: "1.0" });
  const inLock = wheel("thing", { version: "2.0" });
  const inIndex = wheel("thing", { version: "3.0" });

  test("a folder of wheels comes first, then Pyodide's distribution, then the index", async () => {
    const sources = sourcesWithLock([micropip, inLock]);
    const [distribution, index] = await Promise.all([serveFiles([micropip, inLock]), serveIndex([inIndex])]);
    const places = { pyodideBaseUrl: distribution.url, packageIndex: `${index.url}simple` };
    const all = testPackages({ ...places, packageDir: folderOf([inFolder]) }, sources);
    const image = await all.image(["thing"]);
    expect(contents(image)).toEqual(["thing 1.0 (folder)"]);
    expect(fileIn(image, "thing/__init__.py")).toBe('version = "1.0"\n');
    expect(contents(await all.image(["thing>=2"]))).toEqual(["thing 2.0 (distribution)"]);
    expect(index.hits).toEqual([]);
    expect(contents(await all.image(["Thing >= 3"]))).toEqual(["thing 3.0 (index)"]);
  });

  test("micropip itself comes the same three ways", async () => {
    const folder = folderOf([micropip, inFolder]);
    expect(contents(await testPackages({ packageDir: folder }).image(["thing"]))).toEqual(["thing 1.0 (folder)"]);

    const distribution = await serveFiles([micropip, inLock]);
    const fromLock = testPackages({ pyodideBaseUrl: distribution.url }, sourcesWithLock([micropip, inLock]));
    expect(contents(await fromLock.image(["thing"]))).toEqual(["thing 2.0 (distribution)"]);

    const index = await serveIndex([micropip, inIndex], { as: "html", metadata: false });
    const fromIndex = testPackages({ packageIndex: `${index.url}simple/` }, sourcesWithLock([]));
    expect(contents(await fromIndex.image(["thing"]))).toEqual(["thing 3.0 (index)"]);
  });

  test("without micropip, the error says where it was looked for", async () => {
    const { message, hint } = await failure(testPackages().image(["thing"]));
    expect(message).toMatch(/without micropip 0\.11\.x.*distribution could not be reached.*index could not be reached/);
    expect(hint).toContain("--package-dir");
  });

  test("with the distribution down, the index has to do", async () => {
    const index = await serveIndex([micropip, inIndex]);
    const down = testPackages({ packageIndex: `${index.url}simple` }, sourcesWithLock([micropip, inLock]));
    expect(contents(await down.image(["thing"]))).toEqual(["thing 3.0 (index)"]);
  });

  test.each([404, 403])(
    "a file that the distribution answers with %i does not keep the others from it",
    async (status) => {
      const absent = wheel("absent", { version: "2.0" });
      const distribution = await serve((path, _, response) => {
        const found = [micropip, inLock].find(({ file }) => path.endsWith(file));
        response.statusCode = found ? 200 : status;
        response.end(found?.data);
      });
      const index = await serveIndex([wheel("absent", { version: "3.0", requires: ["thing"] }), inIndex]);
      const { image } = testPackages(
        { pyodideBaseUrl: distribution.url, packageIndex: `${index.url}simple` },
        sourcesWithLock([micropip, inLock, absent]),
      );
      expect(contents(await image(["absent"]))).toEqual(["absent 3.0 (index)", "thing 2.0 (distribution)"]);
    },
  );

  test("a package that only the distribution has is named, with who needed it", async () => {
    const native = { tag: "cp314-cp314-pyemscripten_2026_0_wasm32" };
    const numpy = wheel("numpy", native);
    const pandas = wheel("pandas", { ...native, requires: ["numpy"] });
    const matplotlib = wheel("matplotlib", { ...native, requires: ["numpy"] });
    const foreign = { version: "2.0", tag: "cp314-cp314-manylinux_2_17_x86_64" };
    const index = await serveIndex([
      micropip,
      wheel("seaborn", { requires: ["matplotlib>=1", "numpy>=1,!=1.5", "pandas>=1"] }),
      ...["numpy", "pandas"].map((name) => wheel(name, foreign)),
    ]);
    const down = testPackages({ packageIndex: `${index.url}simple` }, sourcesWithLock([numpy, pandas, matplotlib]));
    const { code, message, hint } = await failure(down.image(["seaborn"]));
    expect(code).toBe("package_error");
    expect(message).toContain("Only Pyodide's distribution has numpy, matplotlib and pandas for WebAssembly");
    expect(message).toContain("(needed by seaborn 1.0)");
    expect(hint).toContain("--pyodide-base-url");
    expect(down.leftovers()).toEqual([]);
    expect(await down.packages.list()).toEqual([]);
  });

  test("failures are distinguished: unknown, no such version, not for WebAssembly, unreachable", async () => {
    const index = await serveIndex([
      micropip,
      wheel("old", { version: "1.0" }),
      wheel("native", { tag: "cp314-cp314-manylinux_2_17_x86_64" }),
      wheel("needy", { requires: ["middle"] }),
      wheel("middle", { requires: ["nowhere"] }),
    ]);
    const { image } = testPackages({ packageIndex: `${index.url}simple` });
    const { message } = await failure(image(["nosuch", "old>=2", "native", "needy"]));
    expect(message).toContain("The package index does not have nosuch.");
    expect(message).toContain("No version for this Python fits old>=2.");
    expect(message).toContain("native cannot run in WebAssembly");
    expect(message).toContain("does not have nowhere (needed by middle 1.0, which needy 1.0 needs)");

    const offline = testPackages({ packageDir: folderOf([micropip]) });
    expect((await failure(offline.image(["old"]))).message).toMatch(/index could not be queried for old: .*refused/);
  });

  test("a version that the distribution does not have is not taken from it", async () => {
    const distribution = await serveFiles([micropip, inLock]);
    const index = await serveIndex([wheel("thing", { version: "5.0", tag: "cp314-cp314-win_amd64" })]);
    const { image } = testPackages(
      { pyodideBaseUrl: distribution.url, packageIndex: `${index.url}simple` },
      sourcesWithLock([micropip, inLock]),
    );
    const { message } = await failure(image(["thing==5.0"]));
    expect(message).toContain("thing==5.0 cannot run in WebAssembly");
    expect(message).toContain("Pyodide's distribution has 2.0");
  });

  test("a file of the distribution with another hash is refused, and the index is not asked instead", async () => {
    const index = await serveIndex([inIndex]);
    const files = new Map([
      [micropip.file, micropip.data],
      [inLock.file, wheel("thing", { version: "2.0", files: { "thing.py": "evil = True" } }).data],
    ]);
    const distribution = await serveFiles(files);
    const { image, packages } = testPackages(
      { pyodideBaseUrl: distribution.url, packageIndex: `${index.url}simple` },
      sourcesWithLock([micropip, inLock]),
    );
    const { message } = await failure(image(["thing"]));
    expect(message).toMatch(
      /thing was refused: the hash of thing-2\.0-py3-none-any\.whl differs from the expected one/,
    );
    expect(index.hits).toEqual([]);
    expect(await packages.list()).toEqual([]);

    files.set(micropip.file, inLock.data);
    expect((await failure(image(["thing"]))).message).toContain("micropip was refused");
  });

  test("a file of the index with another hash is refused", async () => {
    const index = await serveIndex([inIndex], { wrongHashes: true });
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folderOf([micropip]) });
    expect((await failure(image(["thing"]))).message).toContain("differs from the expected one");
  });

  test("extras, markers and the wishes of several packages are respected", async () => {
    const index = await serveIndex([
      ...["1.0", "1.5", "2.0"].map((version) => wheel("shared", { version })),
      wheel("careful", { requires: ["shared<2"] }),
      wheel("careless", {
        requires: ["shared>=1", "windows-only; sys_platform == 'win32'", "colour; extra == 'pretty'"],
        extras: ["pretty"],
      }),
      wheel("colour"),
      wheel("round", { requires: ["trip"] }),
      wheel("trip", { requires: ["round[unknown]"] }),
      wheel("future", { version: "9.0", requires: ["shared>=2"] }),
    ]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folderOf([micropip]) });
    const packages = contents(await image(["careless", "careful", "careless[pretty]", "round"]));
    expect(packages).toEqual(
      ["careful 1.0", "careless 1.0", "colour 1.0", "round 1.0", "shared 1.5", "trip 1.0"].map(
        (name) => `${name} (index)`,
      ),
    );
    expect(contents(await image(["trip; sys_platform == 'win32'", "colour"]))).toEqual(["colour 1.0 (index)"]);

    const { message } = await failure(image(["careful", "future"]));
    expect(message).toContain("No version of shared satisfies all requirements");
    expect(message).toContain("careful 1.0 needs shared<2; future 9.0 needs shared>=2");
  });

  test("a session's versions are kept", async () => {
    const index = await serveIndex([
      ...["1.0", "2.0"].map((version) => wheel("shared", { version })),
      wheel("user", { requires: ["shared"] }),
      wheel("modern", { requires: ["shared>=2"] }),
    ]);
    const { image } = testPackages({ packageIndex: `${index.url}simple`, packageDir: folderOf([micropip]) });
    const keep = [{ name: "shared", version: "1.0" }];
    expect(contents(await image(["user"]))).toContain("shared 2.0 (index)");
    expect(contents(await image(["user"], { keep }))).toContain("shared 1.0 (index)");
    expect((await failure(image(["modern"], { keep }))).message).toContain("this session needs shared==1.0");
  });

  test("a folder with all that is needed needs no server", async () => {
    const folder = folderOf([micropip, wheel("top", { requires: ["thing"] }), inFolder]);
    const image = await testPackages({ packageDir: folder, pyodideBaseUrl: closedUrl }).image(["top"]);
    expect(contents(image)).toEqual(["thing 1.0 (folder)", "top 1.0 (folder)"]);
  });
});
