import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { findEnvironment } from "../../../../src/kernels/local/environments/find.ts";
import { openly } from "../../../../src/kernels/local/environments/probe/probe.ts";
import { describeWith } from "../../../support/requirements.ts";
import { addIpykernel, createWorld, pythonVersion, standInPip, type World } from "./world.ts";

describeWith("managedPython", "an environment is found", () => {
  test("by its name below --env-root, spaces and all", async () => {
    const world = createWorld();
    const prefix = world.venv("envs/my analysis");
    const found = await findEnvironment("my analysis", world.config());
    expect(found).toMatchObject({ name: "my analysis", kind: "venv", prefix, ipykernel: "7.4.0" });
    expect(found.python).toBe(join(prefix, "bin/python"));
    expect(found.packages).toEqual({ numpy: "2.4.6" });
    expect(found.basePrefix).not.toBe(prefix);
  });

  test.each([
    ["/", (world: World) => join(world.home, "work/env")],
    ["~", () => "~/work/env"],
    ["./", () => "./work/env"],
    ["no dot, but a slash", () => "work/env"],
    ["its interpreter", () => "~/work/env/bin/python"],
  ])("by a path with %s", async (_, path) => {
    const world = createWorld();
    const prefix = world.venv("work/env");
    const name = path(world);
    expect(await findEnvironment(name, world.config())).toMatchObject({ name, kind: "venv", prefix });
  });

  test("in the project folder that a path leads to", async () => {
    const world = createWorld();
    const prefix = world.venv("project/.venv");
    expect(await findEnvironment("~/project", world.config())).toMatchObject({ prefix });
  });

  test("through a link, where the link is", async () => {
    const world = createWorld();
    world.venv("elsewhere/env");
    mkdirSync(join(world.home, "envs"));
    symlinkSync(join(world.home, "elsewhere/env"), join(world.home, "envs/linked"));
    const { python, readPaths } = await findEnvironment("linked", world.config());
    expect(python).toBe(join(world.home, "envs/linked/bin/python"));
    expect(readPaths).toContain(join(world.home, "elsewhere/env"));
  });

  test("as the managed one by default, and by its name", async () => {
    const world = createWorld();
    const prefix = world.venv("data/envs/managed");
    world.file("data/envs/managed/cellwright.json", JSON.stringify({ folder: prefix, packages: [], installer: "uv" }));
    for (const name of [undefined, "", "managed"]) {
      expect(await findEnvironment(name, world.config())).toMatchObject({ name: "managed", kind: "managed", prefix });
    }
  });

  test("as --env by default", async () => {
    const world = createWorld();
    const prefix = world.venv("envs/usual");
    expect(await findEnvironment(undefined, world.config({ defaultEnv: "usual" }))).toMatchObject({ prefix });
  });

  test.each([
    ["in a list of conda's", () => ({})],
    ["where conda is installed", (world: World) => ({ MAMBA_ROOT_PREFIX: join(world.home, "far") })],
    ["where conda was told to put it", (world: World) => ({ CONDA_ENVS_PATH: join(world.home, "far/envs") })],
  ])("by the name of a conda environment %s", async (where, variables) => {
    const world = createWorld();
    const prefix = world.conda("far/envs/stats");
    if (where.includes("list")) world.file(".conda/environments.txt", `${prefix}\n`);
    const config = world.config();
    Object.assign(config.env, variables(world));
    expect(await findEnvironment("stats", config)).toMatchObject({ name: "stats", kind: "conda", prefix });
  });

  test("by the name that only conda itself knows", async () => {
    const world = createWorld();
    const prefix = world.conda("odd/place");
    world.script("bin/conda", [`echo '{"envs": ["${prefix}"]}'`]);
    const config = world.config();
    config.env.PATH = `${join(world.home, "bin")}:${config.env.PATH}`;
    expect(await findEnvironment("place", config)).toMatchObject({ kind: "conda", prefix });
  });

  test("by its name among hundreds that only conda knows", async () => {
    const world = createWorld();
    const prefix = world.conda("odd/place");
    const others = Array.from({ length: 300 }, (_, number) => `/nowhere/${number}`);
    world.file("envs.json", JSON.stringify({ envs: [prefix, ...others] }, null, 2));
    world.script("bin/conda", [`cat '${join(world.home, "envs.json")}'`]);
    const config = world.config();
    config.env.PATH = `${join(world.home, "bin")}:${config.env.PATH}`;
    expect(await findEnvironment("place", config)).toMatchObject({ kind: "conda", prefix });
  });

  test("as conda's `base`", async () => {
    const world = createWorld();
    const prefix = world.conda("miniforge3");
    mkdirSync(join(prefix, "condabin"));
    expect(await findEnvironment("base", world.config())).toMatchObject({ kind: "conda", prefix });
  });

  test("by the name of an environment of the pixi project around the working directory", async () => {
    const world = createWorld();
    const prefix = world.conda("project/.pixi/envs/gpu");
    mkdirSync(join(world.home, "project/notebooks"));
    const config = world.config({ workingDir: join(world.home, "project/notebooks") });
    expect(await findEnvironment("gpu", config)).toMatchObject({ kind: "pixi", prefix });
  });

  test("by the name of a kernelspec", async () => {
    const world = createWorld();
    const prefix = world.venv("somewhere");
    world.kernelspec("My-Kernel".toLowerCase(), [join(prefix, "bin/python")]);
    expect(await findEnvironment("My-Kernel", world.config())).toMatchObject({ kind: "kernelspec", prefix });
  });

  test("with all folders that its interpreter reads, and not with the home that they are in", async () => {
    const world = createWorld();
    const prefix = world.venv("envs/x");
    world.file("code/module.py", "");
    world.file(`envs/x/lib/python${pythonVersion()}/site-packages/here.pth`, `${world.home}/code\n/\n`);
    const found = await findEnvironment("x", world.config({ workspace: join(world.home, "code") }));
    expect(found.readPaths).toContain(prefix);
    expect(found.within).toContain(join(world.home, "code"));
    // System installations are visible to every session.
    const shown = [...found.readPaths, "/usr"];
    expect(shown.some((folder) => found.basePrefix.startsWith(folder))).toBe(true);
    expect(found.readPaths).not.toContain("/");
    expect(found.coldReason).toContain(`can write to ${join(world.home, "code")}`);
  });
});

describeWith("managedPython", "an interpreter", () => {
  test("is asked once, and again when its packages have changed", async () => {
    const world = createWorld();
    const prefix = world.venv("real", { ipykernel: false });
    const log = join(world.home, "asked");
    world.script("envs/counted/bin/python", [`echo asked >> '${log}'`, `exec '${prefix}/bin/python' "$@"`]);
    const config = world.config({ jail: openly });
    const asked = () => readFileSync(log, "utf8").trim().split("\n").length;
    await Promise.all(Array.from({ length: 10 }, () => findEnvironment("counted", config).catch(() => undefined)));
    await expect(findEnvironment("counted", config)).rejects.toThrow("has no ipykernel");
    expect(asked()).toBe(1);
    addIpykernel(join(prefix, `lib/python${pythonVersion()}/site-packages`), "7.4.0");
    expect(await findEnvironment("counted", config)).toMatchObject({ ipykernel: "7.4.0" });
    expect(asked()).toBe(2);
  });

  test("does not get to see this program's secrets", async () => {
    const world = createWorld();
    const log = join(world.home, "seen");
    world.script("envs/curious/bin/python", [`env > '${log}'`]);
    const config = world.config({ jail: openly });
    Object.assign(config.env, { API_KEY: "secret", PYTHONPATH: "/planted" });
    await expect(findEnvironment("curious", config)).rejects.toMatchObject({ code: "env_error" });
    expect(readFileSync(log, "utf8")).not.toMatch(/secret|planted/);
  });

  test("is asked in a jail that shows nothing but itself, and cannot write there", async () => {
    const world = createWorld();
    world.file("secret", "s");
    const path = world.script("envs/nosy/bin/python", [
      `cat '${world.home}/secret' && echo 'saw the home' >&2`,
      `touch '${world.home}/envs/nosy/planted' && echo 'wrote' >&2`,
      "echo 'nothing else' >&2; exit 3",
    ]);
    const attempt = findEnvironment("nosy", world.config());
    await expect(attempt).rejects.toThrow("does not run: nothing else");
    expect(readdirSync(dirname(dirname(path)))).toEqual(["bin"]);
  });

  test("runs nothing of its environment to answer: no .pth file, no sitecustomize", async () => {
    const world = createWorld();
    const prefix = world.venv("envs/x");
    const log = join(world.home, "ran");
    const site = join(prefix, `lib/python${pythonVersion()}/site-packages`);
    writeFileSync(join(site, "x.pth"), `import os; open(${JSON.stringify(log)}, "w")\n`);
    writeFileSync(join(site, "sitecustomize.py"), `open(${JSON.stringify(log)}, "w")\n`);
    expect(await findEnvironment("x", world.config({ jail: openly }))).toMatchObject({ prefix });
    expect(() => readFileSync(log)).toThrow();
  });

  test("must be called like one: nothing else is run for being asked about", async () => {
    const world = createWorld();
    const log = join(world.home, "ran");
    const path = world.script("tools/deploy", [`touch '${log}'`]);
    await expect(findEnvironment(path, world.config({ jail: openly }))).rejects.toThrow("is not a Python interpreter");
    expect(() => readFileSync(log)).toThrow();
  });
});

describe("what is wrong is said with the command that mends it", () => {
  test.each([
    [
      "no such name",
      undefined,
      "anlysis",
      /There is no environment `anlysis`/,
      /Did you mean `analysis`\?.*list_environments.*python3 -m venv/,
    ],
    ["not created", undefined, undefined, /has not been created/, /`cellwright env create`/],
    [
      "a managed one half made",
      (world: World) => world.file("data/envs/managed/pyvenv.cfg", ""),
      "managed",
      /is incomplete: its creation was interrupted/,
      /`cellwright env create`/,
    ],
    [
      "nothing at the path",
      undefined,
      "/nowhere/env",
      /\/nowhere\/env does not exist/,
      /`python3 -m venv \/nowhere\/env && /,
    ],
    [
      "an interpreter that is gone",
      (world: World) => {
        world.file("envs/old/pyvenv.cfg", "");
        mkdirSync(join(world.home, "envs/old/bin"));
        symlinkSync("/usr/bin/python3.1", join(world.home, "envs/old/bin/python"));
      },
      "old",
      /points to \/usr\/bin\/python3\.1, which no longer exists/,
      /python3 -m venv --clear/,
    ],
    [
      "one that does not run",
      (world: World) => {
        world.file("envs/broken/pyvenv.cfg", "");
        world.script("envs/broken/bin/python", ["echo 'libpython3.so: cannot open' >&2", "exit 127"]);
      },
      "broken",
      /does not run: libpython3\.so: cannot open/,
      /--clear/,
    ],
    [
      "one that talks nonsense",
      (world: World) => world.script("envs/odd/bin/python", [`echo 'cellwright-probe {"version": 3}'`]),
      "odd",
      /its answer is invalid/,
      /choose another/,
    ],
    [
      "one that is too old",
      (world: World) =>
        world.script("envs/aged/bin/python", [`echo 'cellwright-probe ${answer({ version: "3.8.1" })}'`]),
      "aged",
      /has Python 3\.8\.1; kernels need 3\.9 or newer/,
      /choose another/,
    ],
    [
      "an old ipykernel",
      (world: World) =>
        world.script("envs/dated/bin/python", [
          `echo 'cellwright-probe ${answer({ hasIpykernel: true, distributions: { ipykernel: "5.1" } })}'`,
        ]),
      "dated",
      /has ipykernel 5\.1; 6\.17 or newer is needed/,
      /Upgrade it/,
    ],
    [
      "a kernelspec without its Python",
      (world: World) => world.kernelspec("lost", ["/nowhere/bin/python"]),
      "lost",
      /names `\/nowhere\/bin\/python`, which does not exist/,
      /jupyter kernelspec remove lost/,
    ],
    [
      "a kernelspec that starts something else",
      (world: World) => world.kernelspec("wrapped", ["conda", "run"]),
      "wrapped",
      /starts with `conda`, which is not a Python interpreter/,
      /kernelspec remove/,
    ],
    [
      "conda without Python",
      (world: World) => world.conda("miniconda3/envs/bare", { python: false }),
      "bare",
      /has no Python/,
      /`conda install -p .*miniconda3\/envs\/bare'? -c conda-forge python ipykernel`/,
    ],
  ])("%s", async (_, prepare, name, message, hint) => {
    const world = createWorld();
    world.file("envs/analysis/pyvenv.cfg", "");
    prepare?.(world);
    await expect(findEnvironment(name, world.config())).rejects.toMatchObject({
      code: "env_error",
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint),
    });
  });
});

describeWith("managedPython", "ipykernel that is missing is brought", () => {
  test.each([
    [
      "pip",
      (world: World) => world.venv("envs/x", { ipykernel: false, pip: "pass" }),
      /x\/bin\/python'? -m pip install ipykernel`/,
    ],
    [
      "ensurepip",
      (world: World) => world.venv("envs/x", { ipykernel: false }),
      /-m ensurepip && .* -m pip install ipykernel`/,
    ],
    [
      "uv, which made it",
      (world: World) => {
        world.venv("envs/x", { ipykernel: false });
        world.file("envs/x/pyvenv.cfg", `${readFileSync(join(world.home, "envs/x/pyvenv.cfg"))}uv = 0.9.0\n`);
      },
      /`uv pip install --python \S* ?\S*x\/bin\/python'? ipykernel`/,
    ],
    [
      "conda",
      (world: World) => world.conda("envs/x", { ipykernel: false }),
      /`conda install -p .*envs\/x'? -c conda-forge ipykernel`/,
    ],
    [
      "mamba, when that is there",
      (world: World) => {
        world.conda("envs/x", { ipykernel: false });
        world.script("bin/mamba", []);
      },
      /`mamba install -p /,
    ],
    [
      "pixi in its project",
      (world: World) => {
        world.conda("project/.pixi/envs/default", { ipykernel: false });
        mkdirSync(join(world.home, "envs"));
        symlinkSync(join(world.home, "project/.pixi/envs/default"), join(world.home, "envs/x"));
      },
      /conda install|pixi add ipykernel/,
    ],
  ])("with a command for %s", async (_, prepare, hint) => {
    const world = createWorld();
    prepare(world);
    const config = world.config();
    config.env.PATH = `${join(world.home, "bin")}:/bin`;
    await expect(findEnvironment("x", config)).rejects.toMatchObject({
      code: "env_error",
      message: expect.stringMatching(/^Environment `x` \(.*\) has no ipykernel\.$/),
      hint: expect.stringMatching(hint),
    });
  });

  test("with pixi's own command in its project", async () => {
    const world = createWorld();
    world.conda("project/.pixi/envs/default", { ipykernel: false });
    const config = world.config({ workingDir: join(world.home, "project") });
    await expect(findEnvironment("default", config)).rejects.toMatchObject({
      hint: expect.stringMatching(/cd .*project'? && pixi add ipykernel`/),
    });
  });

  test("by itself with --auto-install-ipykernel, once for all who wait", async () => {
    const world = createWorld();
    const log = join(world.home, "pip.log");
    world.venv("envs/x", { ipykernel: false, pip: standInPip(log) });
    const config = world.config({ autoInstallIpykernel: true });
    const told: string[] = [];
    const progress = (message: string) => told.push(message);
    const found = await Promise.all([1, 2].map(() => findEnvironment("x", config, { progress })));
    expect(found.map(({ ipykernel }) => ipykernel)).toEqual(["7.4.0", "7.4.0"]);
    expect(told).toContain("installing ipykernel into x");
    expect(readFileSync(log, "utf8")).toBe("install ipykernel\n");
  });

  test("or it is said why that did not work", async () => {
    const world = createWorld();
    world.venv("envs/x", { ipykernel: false, pip: "import sys; sys.exit('OSError: Read-only file system')" });
    await expect(findEnvironment("x", world.config({ autoInstallIpykernel: true }))).rejects.toMatchObject({
      code: "env_error",
      message: expect.stringContaining("OSError: Read-only file system"),
      hint: expect.stringContaining("-m pip install ipykernel"),
    });
  });

  test("never into the system's own Python", async () => {
    const world = createWorld();
    const said = answer({ isExternallyManaged: true, hasPip: true, prefix: "/usr", basePrefix: "/usr" });
    world.script("sys/bin/python3", [`echo 'cellwright-probe ${said}'`]);
    const attempt = findEnvironment(
      undefined,
      world.config({ autoInstallIpykernel: true, defaultEnv: "~/sys/bin/python3" }),
    );
    await expect(attempt).rejects.toMatchObject({
      hint: expect.stringMatching(/apt install python3-ipykernel|-m venv/),
    });
  });
});

function answer(changed: object): string {
  const python = {
    python: "/x/python",
    prefix: "/x",
    basePrefix: "/x",
    version: "3.11.2",
    path: [],
    places: [],
    pathFiles: [],
    distributions: {},
  };
  return JSON.stringify({ ...python, hasIpykernel: false, hasPip: true, isExternallyManaged: false, ...changed });
}
