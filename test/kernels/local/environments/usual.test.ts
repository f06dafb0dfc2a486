import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { USUAL } from "../../../../src/kernels/local/environments/environment.ts";
import { findEnvironment, lookAtEnvironment } from "../../../../src/kernels/local/environments/find.ts";
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
    const workspace = join(world.home, "project");
    mkdirSync(workspace);
    const config = world.config({ defaultEnv: USUAL, workspace });
    Object.assign(config.env, { PATH: join(world.venv("project/.venv"), "bin") });
    await expect(findEnvironment(undefined, config)).rejects.toThrow("has not been created");
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
