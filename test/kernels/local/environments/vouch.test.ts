import { mkdirSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findEnvironment } from "../../../../src/kernels/local/environments/find.ts";
import { describeWith } from "../../../support/requirements.ts";
import { createWorld, pythonVersion, type World } from "./world.ts";

const project = (world: World) => {
  mkdirSync(join(world.home, "project"), { recursive: true });
  return join(world.home, "project");
};

describeWith("managedPython", "an environment is vouched for", () => {
  test.each<[string, (path: string) => { defaultEnv?: string }, { variable?: string; name?: string }]>([
    ["it is --env", (path: string) => ({ defaultEnv: path }), {}],
    ["it is active", () => ({}), { variable: "VIRTUAL_ENV" }],
    ["it was in the project before code was", () => ({}), { name: ".venv" }],
  ])("when %s: it may be forked, and code never changes it", async (_, change, { variable, name = "env" }) => {
    const world = createWorld();
    const workspace = project(world);
    const path = world.venv(`project/${name}`);
    const env = { PATH: "/usr/bin:/bin", HOME: world.home, ...(variable && { [variable]: path }) };
    const config = world.config({ workspace, env, ...change(path) });
    expect((await findEnvironment(path, config)).coldReason).toBeUndefined();
    expect(config.vouched.protectedPaths).toContain(path);
  });

  test("when it is below --env-root, made later too", async () => {
    const world = createWorld();
    const config = world.config({ envRoot: join(world.home, "project/envs"), workspace: project(world) });
    world.venv("project/envs/later");
    expect((await findEnvironment("later", config)).coldReason).toBeUndefined();
  });

  test("when it was found by its name where no other user can write", async () => {
    const world = createWorld();
    world.conda("miniconda3/envs/stats");
    expect((await findEnvironment("stats", world.config())).coldReason).toBeUndefined();
  });
});

describeWith("managedPython", "an environment is started in the session's jail only", () => {
  const coldReasonOf = async (path: string, world: World, changed: Parameters<World["config"]>[0] = {}) =>
    (await findEnvironment(path, world.config(changed))).coldReason;

  test("when a caller names it by a path that is not vouched for", async () => {
    const world = createWorld();
    expect(await coldReasonOf(world.venv("work/env"), world)).toContain("named by a path");
  });

  test("when it was made in the project after the start, and at the next start, too", async () => {
    const world = createWorld();
    const workspace = project(world);
    const config = world.config({ workspace });
    const path = world.venv("project/.venv");
    expect((await findEnvironment(path, config)).coldReason).toContain("can write");
    const next = world.config({ workspace });
    expect(next.vouched.protectedPaths).toContain(path);
    expect((await findEnvironment(path, next)).coldReason).toContain("named by a path");
    expect((await findEnvironment(path, world.config({ workspace, defaultEnv: path }))).coldReason).toBeUndefined();
  });

  test("when another one was put in the place of the one that was vouched for", async () => {
    const world = createWorld();
    const path = world.venv("work/env");
    const config = world.config({ defaultEnv: path });
    expect((await findEnvironment(undefined, config)).coldReason).toBeUndefined();
    renameSync(path, join(world.home, "old"));
    world.venv("work/env");
    expect((await findEnvironment(undefined, config)).coldReason).toContain("not vouched for");
  });

  test("when a link of code's own leads to one that is vouched for", async () => {
    const world = createWorld();
    const workspace = project(world);
    const venv = world.venv("project/.venv");
    symlinkSync(venv, join(workspace, "planted"));
    expect(await coldReasonOf(join(workspace, "planted"), world, { workspace })).toContain("can write");
  });

  test("when its interpreter leads through a place that code can write", async () => {
    const world = createWorld();
    const workspace = project(world);
    const venv = world.venv("envs/x");
    const real = join(world.venv("project/other"), "bin/python");
    rmSync(join(venv, "bin/python"));
    symlinkSync(real, join(venv, "bin/python"));
    expect(await coldReasonOf("x", world, { workspace })).toContain("can write");
  });

  test.each([
    ["a plain line", (folder: string) => ["in-place.pth", `${folder}\n`]],
    ["an editable finder", (folder: string) => ["_finder.py", `MAPPING = {'thing': '${folder}'}\n`]],
  ])("when %s of a .pth file leads to a project that code can write", async (_, entry) => {
    const world = createWorld();
    const workspace = project(world);
    world.file("project/src/thing.py", "");
    world.venv("envs/x");
    const [name = "", text = ""] = entry(join(workspace, "src"));
    const site = `envs/x/lib/python${pythonVersion()}/site-packages`;
    world.file(`${site}/${name}`, text);
    if (name.endsWith(".py")) world.file(`${site}/editable.pth`, "import _finder; _finder.install()\n");
    expect(await coldReasonOf("x", world, { workspace })).toContain(join(workspace, "src"));
    expect(await coldReasonOf("x", world)).toBeUndefined();
  });

  test("when it lies where files are exported to", async () => {
    const world = createWorld();
    world.conda("project/.pixi/envs/later");
    const found = { workingDir: join(world.home, "project") };
    expect(await coldReasonOf("later", world, found)).toBeUndefined();
    expect(await coldReasonOf("later", world, { ...found, filesDir: project(world) })).toContain("can write");
  });

  test("when others can change it", async () => {
    const world = createWorld();
    const prefix = world.conda("miniconda3/envs/stats");
    const { mode } = statSync(prefix);
    const { chmodSync } = await import("node:fs");
    chmodSync(prefix, mode | 0o002);
    expect(await coldReasonOf("stats", world)).toContain("users other than you");
  });
});

describeWith("managedPython", "a path", () => {
  test.each(["/proc/self/cwd", "/proc/1/root/x", "/dev/fd/3", "/sys/kernel"])("through %s is refused", async (path) => {
    await expect(findEnvironment(path, createWorld().config())).rejects.toMatchObject({
      code: "env_error",
      message: expect.stringMatching(/leads through \/(proc|dev|sys), which has no regular files/),
    });
  });

  test("through a link into /proc is refused, wherever on the way it is", async () => {
    const world = createWorld();
    const venv = world.venv("work/env");
    symlinkSync(`/proc/self/root${world.home}`, join(world.home, "door"));
    await expect(findEnvironment(join(world.home, "door/work/env"), world.config())).rejects.toThrow("/proc");
    rmSync(join(venv, "bin/python"));
    symlinkSync("/proc/self/exe", join(venv, "bin/python"));
    await expect(findEnvironment(venv, world.config())).rejects.toThrow("/proc");
  });

  test("is refused without --allow-env-paths over HTTP, alike whether it exists or not", async () => {
    const world = createWorld();
    world.venv("envs/named");
    const config = world.config({ allowPaths: false });
    const refusals = ["~/nowhere", world.venv("work/env")].map((path) =>
      findEnvironment(path, config).then(
        () => "found",
        ({ message, hint }: { message: string; hint: string }) => `${message} ${hint}`.replace(path, "PATH"),
      ),
    );
    const [one, other] = await Promise.all(refusals);
    expect(one).toBe(other);
    expect(one).toContain("--allow-env-paths");
    expect(await findEnvironment("~/envs/named", config)).toMatchObject({ kind: "venv" });
    // Nor does an unknown name reveal a path.
    const unknown = await findEnvironment("nmed", config).catch(({ message, hint }) => `${message} ${hint}`);
    expect(unknown).toContain("Did you mean `named`");
    expect(unknown).not.toContain(world.home);
  });

  test("into the files of sessions is refused, and so is a base Python of no known place", async () => {
    const world = createWorld();
    const inSession = world.venv("data/sessions/s1/workspace/env");
    await expect(findEnvironment(inSession, world.config())).rejects.toThrow("Cellwright's data folder");
    const venv = world.venv("work/env");
    const base = join(world.home, "secrets");
    world.file(`secrets/lib/python${pythonVersion()}/os.py`, "");
    world.file("work/env/pyvenv.cfg", `home = ${base}/bin\n`);
    await expect(findEnvironment(venv, world.config())).rejects.toThrow(`the Python in ${base}`);
  });
});

test("the folder of named environments, and a missing --env, are made before code could make them", () => {
  const world = createWorld();
  const workspace = project(world);
  const paths = { envRoot: join(workspace, "envs"), defaultEnv: join(workspace, "env") };
  const { vouched } = world.config({ workspace, ...paths });
  for (const path of Object.values(paths)) {
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(vouched.protectedPaths).toContain(path);
  }
  world.config({ envRoot: join(world.home, "elsewhere") });
  expect(statSync(join(world.home, "elsewhere"), { throwIfNoEntry: false })).toBeUndefined();
});
