import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { PythonEnvironment } from "../../../../src/kernels/local/environments/environment.ts";
import { createLog } from "../../../../src/log.ts";
import { describeWith, describeWithPythons, hasNamespaces } from "../../../support/requirements.ts";
import { serveFiles, serveIndex } from "../../wasm/packages/stand-in.ts";
import { closedUrl, failure } from "../../wasm/packages/test-packages.ts";
import { wheel } from "../../wasm/packages/wheels.ts";
import {
  bareEnv,
  probingEnvironment,
  reachable,
  sessionPackages,
  testEnvironment,
  wheelFolder,
} from "./session-packages.ts";

const wheels = [
  wheel("alpha"),
  wheel("alpha", { version: "2.0", files: { "alpha/__init__.py": "version = '2.0'\n", "alpha/more.py": "" } }),
  wheel("beta", { requires: ["alpha>=2"] }),
  wheel("elsewhere", { tag: "cp39-cp39-win_amd64" }),
  wheel("space-one", { files: { "space/one.py": "one = 1\n" } }),
  wheel("space-two", { files: { "space/two.py": "two = 2\n" } }),
];
const offline = { ...bareEnv, PIP_NO_INDEX: "1" };
const packageDir = wheelFolder(wheels);

// By uv and by pip.
describeWithPythons("the packages of a session", (python) => {
  let environment: PythonEnvironment;
  beforeAll(async () => {
    environment = await testEnvironment(python);
  });

  test("come from a folder of wheels with what they need, compiled", async () => {
    const { install, overlayDir, leftovers } = await sessionPackages(environment, {
      packageDir,
      env: offline,
    });
    expect(await install("beta")).toEqual([
      { name: "beta", version: "1.0" },
      { name: "alpha", version: "2.0" },
    ]);
    expect(readdirSync(overlayDir)).toEqual(expect.arrayContaining(["alpha", "beta", "beta-1.0.dist-info"]));
    expect(existsSync(join(overlayDir, "alpha/__pycache__"))).toBe(true);
    expect(leftovers()).toEqual([]);
  });

  test("take no more room than they may: a wheel that unpacks to more is stopped, and leaves nothing", async () => {
    const large = (name: string, files: number, bytes: number) =>
      wheel(name, {
        files: Object.fromEntries(Array.from({ length: files }, (_, i) => [`${name}/${i}.txt`, "0".repeat(bytes)])),
      });
    const MB = 1024 * 1024;
    const folder = wheelFolder([large("bomb", 8, 9 * MB), large("whale", 1, 20 * MB), large("small", 2, MB)]);
    const disposed: string[] = [];
    const limits = {
      ...{ memoryMb: 1024, diskMb: 10 },
      open: async ({ sessionId }: { sessionId: string }) => ({
        forProcess: { procsFiles: [], fileSizeMb: 10, processes: 64, openFiles: 1024 },
        dispose: async () => void disposed.push(sessionId),
      }),
    };
    const { install, overlayDir, leftovers } = await sessionPackages(environment, {
      ...{ packageDir: folder, env: offline, limits },
    });
    const bomb = await failure(install("bomb"));
    expect(bomb).toMatchObject({ code: "package_error", hint: expect.stringContaining("Nothing was installed.") });
    expect(bomb.message).toContain("The installer was ended because its files grew beyond the limit of 10 MB.");
    expect((await failure(install("whale"))).message).toContain("beyond the limit of 10 MB");
    expect(readdirSync(overlayDir)).toEqual([]);
    const open = await sessionPackages(environment, {
      ...{ packageDir: folder, env: offline, limits, isolation: async () => undefined },
    });
    expect((await failure(open.install("whale"))).message).toContain("A file of it is larger than --disk-mb allows.");

    expect(await install("small")).toEqual([{ name: "small", version: "1.0" }]);
    // Existing files count: the next installation has less space.
    expect((await failure(install("bomb"))).message).toContain("beyond the limit of 10 MB");
    expect(leftovers()).toEqual([]);
    expect(disposed).toEqual(Array(5).fill("test"));
  });

  test("come from an index and from where its pages lead, and its password goes nowhere else", async () => {
    const files = await serveFiles(wheels);
    const index = await serveIndex(wheels, {
      filesUrl: files.url,
      metadata: false,
      as: python === "debian" ? "html" : "json",
    });
    const packageIndex = index.url.replace("//", "//user:s3cret@").concat("simple/");
    const logged: string[] = [];
    const log = createLog("debug", (line) => void logged.push(line));
    const { install } = await sessionPackages(environment, { packageIndex, log });
    expect(await install("alpha==1.0")).toEqual([{ name: "alpha", version: "1.0" }]);
    expect(index.requests.at(-1)?.headers.authorization).toBe(`Basic ${btoa("user:s3cret")}`);
    expect(files.hits).toContain("/alpha-1.0-py3-none-any.whl");
    expect(files.requests.map(({ headers }) => headers.authorization)).not.toContain(expect.anything());

    const missing = await failure(install("nowhere-to-be-found"));
    expect(missing).toMatchObject({
      code: "package_error",
      message: "Cannot install nowhere-to-be-found. The package index does not have nowhere-to-be-found.",
    });
    const unfit = await failure(install("alpha>=3"));
    expect(unfit.message).toMatch(/^Cannot install alpha>=3\. No version of alpha matches the request/);
    const foreign = await failure(install("elsewhere"));
    expect(foreign.message).toMatch(
      /The package index has elsewhere, but no wheel of it for Python 3\.\d+\.\d+ on this/,
    );
    expect(JSON.stringify([logged, missing, unfit, foreign])).not.toContain("s3cret");
  });
});

describeWith("managedPython", "the packages of a session", () => {
  let environment: PythonEnvironment;
  beforeAll(async () => {
    environment = await testEnvironment("managed");
  });

  test("are not half there when the index does not answer", async () => {
    const { install, overlayDir, leftovers } = await sessionPackages(environment, {
      packageIndex: closedUrl,
    });
    const { code, message } = await failure(install("alpha"));
    expect(code).toBe("package_error");
    expect(message).toMatch(
      /^Cannot install alpha\. The package index could not be queried for alpha: 127\.0\.0\.1:\d+: .*REFUSED/,
    );
    expect([readdirSync(overlayDir), leftovers()]).toEqual([[], []]);
  });

  test("may be asked for at the same time, and share folders", async () => {
    const { install, overlayDir } = await sessionPackages(environment, { packageDir, env: offline });
    await Promise.all([install("space-one"), install("space-two")]);
    expect(readdirSync(join(overlayDir, "space")).filter((name) => name.endsWith(".py"))).toEqual(["one.py", "two.py"]);
    expect(readdirSync(overlayDir).filter((name) => name.endsWith(".dist-info"))).toHaveLength(2);
  });

  test("give way to other versions of themselves as a whole", async () => {
    const { install, overlayDir } = await sessionPackages(environment, { packageDir, env: offline });
    await install("alpha", "space-one");
    expect(existsSync(join(overlayDir, "alpha/more.py"))).toBe(true);
    expect(await install("alpha==1.0")).toEqual([{ name: "alpha", version: "1.0" }]);
    expect(existsSync(join(overlayDir, "alpha/more.py"))).toBe(false);
    expect(readFileSync(join(overlayDir, "alpha/__init__.py"), "utf8")).toContain("1.0");
    expect(readdirSync(overlayDir).filter((name) => name.endsWith(".dist-info"))).toEqual(
      expect.arrayContaining(["alpha-1.0.dist-info", "space_one-1.0.dist-info"]),
    );
  });

  test("are aborted with their call", async () => {
    const index = await serveIndex([]);
    const packages = await sessionPackages(environment, { packageIndex: index.url });
    const leaving = new AbortController();
    const installing = packages.installUntil(leaving.signal, "alpha");
    leaving.abort(new Error("enough"));
    await expect(installing).rejects.toThrow("enough");
    expect(packages.leftovers()).toEqual([]);
  });

  describeWith("isolation", "are installed by a process", () => {
    test("that reaches the index, and no other host", async () => {
      const [index, other] = [await serveIndex(wheels), await serveFiles(wheels)];
      const otherPort = Number(other.host.split(":")[1]);
      expect(await reachable(otherPort)).toBe(true);
      const probing = probingEnvironment(environment, otherPort);
      const packages = await sessionPackages(probing, { packageIndex: `${index.url}simple/` });
      const [told] = await packages.install("alpha");
      expect(JSON.parse(told?.version ?? "")).toEqual({
        index: 200,
        direct: "refused",
        proxied: 403,
        tunnelled: 403,
        unnamed: 404,
        // The jail's own, with namespaces; otherwise the machine's.
        written: hasNamespaces() ? ["/tmp", "/workspace"] : [],
      });
      expect(other.hits).toEqual([]);
    });
  });
});
