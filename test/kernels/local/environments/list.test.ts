import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findEnvironment } from "../../../../src/kernels/local/environments/find.ts";
import { listEnvironments } from "../../../../src/kernels/local/environments/list.ts";
import { describeWith } from "../../../support/requirements.ts";
import { createWorld } from "./world.ts";

const { signal } = new AbortController();

describeWith("managedPython", "the list of environments", () => {
  test("shows each with its kind, Python, packages and what it lacks, and the usual one marked", async () => {
    const world = createWorld();
    world.venv("envs/plain");
    world.venv("envs/bare", { ipykernel: false, pip: "pass" });
    world.conda("miniconda3/envs/stats");
    world.conda(".pixi/envs/default");
    world.kernelspec("course", [join(world.venv("elsewhere"), "bin/python")]);
    mkdirSync(join(world.home, "envs/not-an-environment"));
    const config = world.config({ defaultEnv: "plain" });
    config.env.PATH = "/nowhere";
    const list = await listEnvironments(config, signal);
    const shown = list.map(({ name, kind, obstacle, isDefault }) => [name, kind, !obstacle, isDefault === true]);
    expect(shown).toEqual(
      expect.arrayContaining([
        ["managed", "managed", false, false],
        ["bare", "venv", false, false],
        ["plain", "venv", true, true],
        ["stats", "conda", true, false],
        ["default", "pixi", true, false],
        ["course", "kernelspec", true, false],
      ]),
    );
    expect(list.map(({ name }) => name)).not.toContain("not-an-environment");
    const plain = list.find(({ name }) => name === "plain");
    expect(plain).toMatchObject({ path: join(world.home, "envs/plain"), packages: ["numpy 2.4.6"] });
    expect(plain?.python).toMatch(/^3\.\d+\.\d+/);
    expect(list.find(({ name }) => name === "bare")?.obstacle).toMatch(/has no ipykernel.*-m pip install ipykernel/);
  });

  test("gives each a name by which it is found: of two with one name, the second has its path", async () => {
    const world = createWorld();
    world.venv("envs/stats");
    const second = world.conda("miniconda3/envs/stats");
    mkdirSync(join(world.home, "anaconda3/envs"), { recursive: true });
    symlinkSync(second, join(world.home, "anaconda3/envs/stats"));
    const config = world.config();
    const ready = (await listEnvironments(config, signal)).filter(
      ({ obstacle, path }) => !obstacle && path.startsWith(world.home),
    );
    expect(ready.map(({ name, kind }) => [name, kind])).toEqual([
      ["stats", "venv"],
      [second, "conda"],
    ]);
    for (const { name, path } of ready) expect((await findEnvironment(name, config)).prefix).toBe(path);
  });

  test("asks what lies where code can write in a jail only, in which it changes nothing", async () => {
    const world = createWorld();
    const ran = join(world.home, "project/ran");
    world.file("project/notes.txt", "");
    const workingDir = join(world.home, "project");
    const config = world.config({ workingDir, workspace: workingDir });
    world.script("project/.pixi/envs/planted/bin/python", [`touch '${ran}'`, "echo 'it ran' >&2; exit 1"]);
    const found = (await listEnvironments(config, signal)).find(({ name }) => name === "planted");
    expect(found?.obstacle).toMatch(/does not run: it ran/);
    expect(existsSync(ran)).toBe(false);
  });

  test("shows an --env that is a path, and says so when it is missing", async () => {
    const world = createWorld();
    const [first] = await listEnvironments(world.config({ defaultEnv: "~/gone" }), signal);
    expect(first).toMatchObject({ name: "~/gone", isDefault: true });
    expect(first?.obstacle).toContain("python3 -m venv");
  });
});
