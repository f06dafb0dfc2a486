import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { USUAL } from "../../../../src/kernels/jupyter/environments/environment.ts";
import { findEnvironment, lookAtEnvironment } from "../../../../src/kernels/jupyter/environments/find.ts";
import { describeWith } from "../../../support/requirements.ts";
import { createWorld } from "./world.ts";

describeWith("managedPython", "the usual environment", () => {
  test("is that of the terminal, the active one before those on the PATH", async () => {
    const world = createWorld();
    const [active, onPath] = [world.venv("active"), world.venv("on-path")];
    const bare = world.venv("bare", { ipykernel: false });
    const PATH = [bare, onPath].map((folder) => join(folder, "bin")).join(":");
    const config = world.config({ defaultEnv: USUAL });
    Object.assign(config.env, { PATH });
    expect(await findEnvironment(undefined, config)).toMatchObject({ prefix: onPath });
    Object.assign(config.env, { VIRTUAL_ENV: active });
    expect(await findEnvironment(undefined, config)).toMatchObject({ prefix: active });
  });

  test("is never one that code of sessions could have planted", async () => {
    const world = createWorld();
    world.venv("project/.venv");
    const config = world.config({ defaultEnv: USUAL, writableByCode: [join(world.home, "project")] });
    Object.assign(config.env, {
      PATH: join(world.home, "project/.venv/bin"),
      VIRTUAL_ENV: join(world.home, "project/.venv"),
    });
    await expect(findEnvironment(undefined, config)).rejects.toThrow("has not been created");
  });
});

describeWith("managedPython", "an environment where code can write", () => {
  test("is used if it lies in a folder that code can only read, and not if a link of code's leads there", async () => {
    const world = createWorld();
    const venv = world.venv("project/.venv");
    const project = join(world.home, "project");
    symlinkSync(venv, join(project, "planted"));
    const config = world.config({ writableByCode: [project], protectedFromCode: [venv] });
    expect(await findEnvironment(venv, config)).toMatchObject({ prefix: venv, writablePaths: [] });
    await expect(findEnvironment(join(project, "planted"), config)).rejects.toThrow("can write");
  });
});

describeWith("managedPython", "a look at an environment", () => {
  test("tells its interpreter, and what is in the way", async () => {
    const world = createWorld();
    const [ready, bare] = [world.venv("ready"), world.venv("bare", { ipykernel: false })];
    expect(await lookAtEnvironment(ready, world.config())).toEqual({
      kind: "venv",
      path: ready,
      python: join(ready, "bin/python"),
    });
    const looks = [bare, join(world.home, "nowhere")].map((path) => lookAtEnvironment(path, world.config()));
    expect(await Promise.all(looks)).toMatchObject([
      { python: join(bare, "bin/python"), obstacle: { kind: "no_ipykernel" } },
      { python: join(world.home, "nowhere/bin/python"), obstacle: { kind: "no_python" } },
    ]);
  });
});
