import { basename, dirname, join } from "node:path";
import { type Candidate, environmentIn } from "./candidate.ts";
import { foldersIn, homeOf } from "./folders.ts";

/** The environments of the pixi project around the working directory, then pixi's global ones. */
export function pixiEnvironments(env: NodeJS.ProcessEnv, workingDir: string): Candidate[] {
  const places = [...ancestors(workingDir).map((folder) => join(folder, ".pixi")), pixiHome(env)];
  return [...new Set(places)]
    .flatMap((place) => foldersIn(join(place, "envs")))
    .map((folder) => ({ ...environmentIn(folder, basename(folder)), kind: "pixi" as const }));
}

/** The project of an environment; undefined for pixi's global ones. */
export function pixiProject(folder: string, env: NodeJS.ProcessEnv): string | undefined {
  const pixiDir = dirname(dirname(folder));
  return pixiDir === pixiHome(env) ? undefined : dirname(pixiDir);
}

function pixiHome(env: NodeJS.ProcessEnv): string {
  return env.PIXI_HOME || join(homeOf(env), ".pixi");
}

function ancestors(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...ancestors(parent)];
}
