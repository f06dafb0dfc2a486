import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { imageId, openImage, seal } from "../../../../src/kernels/wasm/packages/image.ts";
import { type Image, linkInto } from "../../../../src/kernels/wasm/packages/packages.ts";
import { findSources } from "../../../../src/kernels/wasm/sources.ts";
import { failure, temporaryFolder } from "./test-packages.ts";

/** An image without an installer: packages of one module, which contains its version. */
async function image(packages: Record<string, string>, more: Record<string, string> = {}): Promise<Image> {
  const lock = Object.entries(packages).map(([name, version]) => ({
    ...{ name, version, source: "index" as const, file: `${name}.whl`, requires: [] },
    sha256: `${name}${version}${JSON.stringify(more)}`,
  }));
  const id = imageId(lock, findSources());
  const folder = join(temporaryFolder("image"), id);
  const files = Object.fromEntries(
    Object.entries(packages).flatMap(([name, version]) => [
      [`${name}/__init__.py`, version],
      [`${name}-${version}.dist-info/METADATA`, `Name: ${name}`],
    ]),
  );
  for (const [path, text] of Object.entries({ ...files, ...more })) {
    const file = join(folder, "site", path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  await seal(folder, { id, lock, requirements: Object.keys(packages) });
  const sealed = await openImage(folder);
  if (!sealed) throw new Error("The image is broken.");
  return sealed;
}

test("packages appear in a session's folder, without being copied, and can be added to", async () => {
  const site = temporaryFolder("site");
  const [first, second] = [await image({ a: "1.0", b: "1.0" }), await image({ b: "1.0", c: "2.0" })];
  await linkInto(first, site);
  await linkInto(first, site);
  await linkInto(second, site);
  expect(readdirSync(site).sort()).toEqual(["a", "a-1.0.dist-info", "b", "b-1.0.dist-info", "c", "c-2.0.dist-info"]);
  expect(readFileSync(join(site, "c/__init__.py"), "utf8")).toBe("2.0");
  const [linked, original] = [join(site, "a/__init__.py"), join(first.siteDir, "a/__init__.py")];
  expect(lstatSync(linked).ino).toBe(lstatSync(original).ino);
  expect(lstatSync(linked).mode & 0o222).toBe(0);
  rmSync(dirname(first.siteDir), { recursive: true });
  expect(readFileSync(linked, "utf8")).toBe("1.0");
});

test("another version of what is there is refused, and nothing changes", async () => {
  const site = temporaryFolder("site");
  await linkInto(await image({ "some-thing": "1.0" }), site);
  const { code, message, hint } = await failure(linkInto(await image({ "some-thing": "2.0", other: "1.0" }), site));
  expect(code).toBe("package_error");
  expect(message).toBe("This session already has some-thing 1.0, not 2.0.");
  expect(hint).toContain("Reset the session");
  expect(existsSync(join(site, "other"))).toBe(false);
});

test("a file that is there is never replaced", async () => {
  const site = temporaryFolder("site");
  await linkInto(await image({ a: "1.0" }, { "shared.py": "first" }), site);
  await linkInto(await image({ b: "1.0" }, { "shared.py": "second" }), site);
  expect(readFileSync(join(site, "shared.py"), "utf8")).toBe("first");
});

test("a broken image is not linked at all", async () => {
  const site = temporaryFolder("site");
  const broken = await image({ a: "1.0" }, { "z.py": "z" });
  rmSync(join(broken.siteDir, "z.py"));
  expect((await failure(linkInto(broken, site))).code).toBe("package_error");
  expect(readdirSync(site)).toEqual([]);
});

test("what was linked before a failure is taken back", async () => {
  const site = temporaryFolder("site");
  const blocked = await image({ a: "1.0" }, { "z/inside.py": "z" });
  writeFileSync(join(site, "z"), "a file where a folder should be");
  await expect(linkInto(blocked, site)).rejects.toThrow();
  expect(readdirSync(site, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())).toHaveLength(1);
});
