import { existsSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  createManaged,
  isManagedCreated,
  removeManaged,
} from "../../../../src/kernels/local/environments/create/managed.ts";
import { standardPackages } from "../../../../src/kernels/local/environments/create/packages.ts";
import { installerEnv } from "../../../../src/kernels/local/environments/create/pip-settings.ts";
import { findEnvironment } from "../../../../src/kernels/local/environments/find.ts";
import { testPython } from "../../../support/pythons.ts";
import { describeWith } from "../../../support/requirements.ts";
import { until } from "../../../support/until.ts";
import { createWorld, pythonVersion, type World } from "./world.ts";

describeWith("managedPython", "a managed environment", () => {
  test("is made with uv, compiled, found, added to and removed", async () => {
    const world = createWorld();
    const { options, calls, dataDir } = withUv(world);
    const seen: { fraction: number; message: string }[] = [];
    const created = await createManaged({ ...options, progress: (state) => seen.push(state) });
    expect(created).toMatchObject({ installed: standardPackages, installer: "uv" });
    expect(isManagedCreated(dataDir)).toBe(true);
    expect(await findEnvironment(undefined, world.config())).toMatchObject({ kind: "managed", ipykernel: "7.4.0" });
    expect(calls().at(-1)).toContain(" ipykernel nbformat numpy pandas matplotlib ");
    const site = join(dataDir, `envs/managed/lib/python${pythonVersion()}/site-packages`);
    expect(readdirSync(join(site, "ipykernel/__pycache__"))).toHaveLength(1);
    expect(existsSync(join(site, "ipykernel/tests/__pycache__"))).toBe(false);

    const fractions = seen.map(({ fraction }) => fraction);
    expect(fractions).toEqual([...fractions].sort((one, other) => one - other));
    expect(fractions.at(-1)).toBe(1);
    expect(seen.map(({ message }) => message)).toEqual(
      expect.arrayContaining(["downloading 20 of 30 MB", expect.stringMatching(/^compiling \d+ of \d+ files$/)]),
    );

    const before = calls().length;
    expect(await createManaged(options)).toMatchObject({ installed: [] });
    expect(calls()).toHaveLength(before);
    expect(await createManaged({ ...options, packages: ["bokeh"] })).toMatchObject({ installed: ["bokeh"] });
    expect(calls()).toHaveLength(before + 1);

    await removeManaged(dataDir);
    expect(readdirSync(join(dataDir, "envs"))).toEqual([]);
    await expect(removeManaged(dataDir)).rejects.toMatchObject({ code: "env_error" });
  });

  test("of another name is found by it", async () => {
    const world = createWorld();
    const { options } = withUv(world);
    await createManaged({ ...options, name: "course" });
    expect(await findEnvironment("course", world.config())).toMatchObject({ name: "course", kind: "managed" });
  });

  test("is made again when its Python is gone", async () => {
    const world = createWorld();
    const { options, calls } = withUv(world);
    const { python } = await createManaged(options);
    writeFileSync(join(world.home, "data/envs/managed/pyvenv.cfg"), "home = /nowhere\n");
    unlinkSync(python);
    expect(await createManaged(options)).toMatchObject({ installed: standardPackages });
    expect(calls().filter((call) => call.startsWith("venv"))).toHaveLength(2);
  });

  test.each([
    ["when it is given up", "sleep 60", /given up/],
    ["when packages cannot be had", "echo 'error: No solution found' >&2; exit 1", /No solution found/],
  ])("leaves nothing behind %s", async (_, install, message) => {
    const world = createWorld();
    const { options, dataDir, calls } = withUv(world, install);
    const giveUp = new AbortController();
    const attempt = createManaged({ ...options, signal: giveUp.signal });
    if (install.startsWith("sleep")) {
      void untilCalled(calls, "pip install").then(() => giveUp.abort(new Error("given up")));
    }
    await expect(attempt).rejects.toThrow(message);
    expect(readdirSync(join(dataDir, "envs"))).toEqual([]);
  });

  test("is not made by two processes at once, but by the next one when the first has died", async () => {
    const world = createWorld();
    const { options } = withUv(world);
    world.file("data/envs/managed.lock", String(process.ppid));
    await expect(createManaged(options)).rejects.toThrow(`Process ${process.ppid} is changing`);
    world.file("data/envs/managed.lock", "4194400");
    expect(await createManaged(options)).toMatchObject({ installed: standardPackages });
  });

  test("needs a Python that is new enough, and says what there is", async () => {
    const world = createWorld();
    world.script("bin/python3", [`echo 'cellwright-probe ${JSON.stringify(oldPython)}'`]);
    const options = { dataDir: join(world.home, "data"), env: { PATH: join(world.home, "bin"), HOME: world.home } };
    await expect(createManaged(options)).rejects.toMatchObject({
      code: "env_error",
      message: expect.stringContaining("only 3.7.1"),
      hint: expect.stringContaining("Install Python 3.10 or newer"),
    });
  });

  test.each(["../up", "a b", "wasm", ""])("cannot be called `%s`", async (name) => {
    const world = createWorld();
    const { options } = withUv(world);
    await expect(createManaged({ ...options, name })).rejects.toMatchObject({ code: "invalid_input" });
    await expect(removeManaged(options.dataDir, name)).rejects.toMatchObject({ code: "invalid_input" });
  });
});

describe("an installer finds packages where pip does", () => {
  test("by pip's files and variables, the later the stronger", () => {
    const world = createWorld();
    world.file(".pip/pip.conf", "[global]\nindex-url = https://one.example/simple\ntimeout: 7\n");
    world.file(
      ".config/pip/pip.conf",
      "# ours\n[global]\nindex_url = https://two.example/simple\nextra-index-url =\n  https://a.example\n  https://b.example\n[install]\nfind-links = /wheels\n[freeze]\ntimeout = 9\n",
    );
    const env = installerEnv({ HOME: world.home, PIP_CERT: "/certs.pem", PYTHONPATH: "/x", PIP_USER: "1" });
    expect(env).toMatchObject({
      UV_DEFAULT_INDEX: "https://two.example/simple",
      UV_INDEX: "https://a.example https://b.example",
      UV_FIND_LINKS: "/wheels",
      UV_HTTP_TIMEOUT: "7",
      SSL_CERT_FILE: "/certs.pem",
      HOME: world.home,
    });
    expect(env).not.toHaveProperty("PYTHONPATH");
    expect(env).not.toHaveProperty("PIP_USER");
    // uv's default: a package comes from the first index that has it, never a newer one from another.
    expect(env).not.toHaveProperty("UV_INDEX_STRATEGY");
    const asked = { HOME: world.home, UV_INDEX_STRATEGY: "unsafe-best-match" };
    expect(installerEnv(asked)).toHaveProperty("UV_INDEX_STRATEGY", "unsafe-best-match");
  });

  test("unless uv has settings of its own, or the user names the index", () => {
    const world = createWorld();
    world.file(".pip/pip.conf", "[global]\nindex-url = https://one.example/simple\n");
    const own = { HOME: world.home, UV_DEFAULT_INDEX: "https://uv.example/simple" };
    expect(installerEnv(own).UV_DEFAULT_INDEX).toBe("https://uv.example/simple");
    expect(installerEnv(own, "https://asked.example/simple")).toMatchObject({
      UV_DEFAULT_INDEX: "https://asked.example/simple",
      PIP_INDEX_URL: "https://asked.example/simple",
    });
    world.file(".config/uv/uv.toml", "");
    expect(installerEnv({ HOME: world.home })).not.toHaveProperty("UV_DEFAULT_INDEX");
  });
});

const oldPython = {
  python: "/x/python",
  prefix: "/x",
  basePrefix: "/x",
  version: "3.7.1",
  path: [],
  places: [],
  pathFiles: [],
  distributions: {},
};

/** A fake uv with the visible effects of the real one, in a tenth of a second and without network. */
function withUv(world: World, install = "true") {
  const log = join(world.home, "uv.log");
  const template = world.venv("template");
  world.file(`template/lib/python${pythonVersion()}/site-packages/ipykernel/tests/test_it.py`, "");
  world.file(`template/lib/python${pythonVersion()}/site-packages/ipykernel/broken.py`, "def def");
  world.script("bin/uv", [
    `echo "$@" >> '${log}'`,
    `if [ "$1" = venv ]; then for target; do :; done; exec cp -R '${template}' "$target"; fi`,
    install,
    "echo 'Resolved 66 packages in 1ms' >&2",
    "echo 'Downloading numpy (20.0MiB)' >&2; echo 'Downloading pandas (10.0MiB)' >&2",
    "echo ' Downloaded numpy' >&2; echo ' Downloaded pandas' >&2",
    "echo 'Installed 66 packages in 1ms' >&2",
  ]);
  world.script("bin/python3", [`exec '${testPython("managed")}' "$@"`]);
  const dataDir = join(world.home, "data");
  const env = { PATH: `${join(world.home, "bin")}:/usr/bin:/bin`, HOME: world.home };
  const calls = () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []);
  return { options: { dataDir, env }, dataDir, calls };
}

async function untilCalled(calls: () => string[], beginning: string): Promise<void> {
  await until(`a call of ${beginning}`, () => calls().some((call) => call.startsWith(beginning)));
}
