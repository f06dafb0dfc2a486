import { managedEnvironments } from "../create/managed.ts";
import type { EnvironmentsConfig } from "../environment.ts";
import { type Candidate, environmentIn } from "./candidate.ts";
import { condaEnvironments } from "./conda.ts";
import { expanded, foldersIn, homeOf } from "./folders.ts";
import { kernelspecs } from "./kernelspec.ts";
import { pixiEnvironments } from "./pixi.ts";

type NamePlaces = Pick<EnvironmentsConfig, "dataDir" | "envRoot" | "env"> & { workingDir?: string | undefined };

/** All environments with a name, in lookup order. Starts no process. */
export function namedEnvironments(config: NamePlaces): Candidate[] {
  const { dataDir, env } = config;
  const [managed, ...others] = managedEnvironments(dataDir);
  const root = envRootOf(config);
  return [
    ...(managed ? [managed] : []),
    ...foldersIn(root).map((folder) => environmentIn(folder, folder.slice(root.length + 1))),
    ...others,
    ...condaEnvironments(env),
    ...pixiEnvironments(env, placesOf(config).workingDir),
    ...kernelspecs(env),
  ];
}

export function isCalled(candidate: Candidate, name: string): boolean {
  return candidate.name === (candidate.kind === "kernelspec" ? name.toLowerCase() : name);
}

export function envRootOf(config: NamePlaces): string {
  return expanded(config.envRoot, placesOf(config));
}

/** The bases of `~` and of relative paths. */
export function placesOf({ env, workingDir = process.cwd() }: Pick<NamePlaces, "env" | "workingDir">) {
  return { home: homeOf(env), workingDir };
}

/** `/data/envs/x`, `~/x`, `./x`, `.venv`: not a name. */
export function isPath(name: string): boolean {
  return /[/\\]/.test(name) || /^[.~]/.test(name);
}
