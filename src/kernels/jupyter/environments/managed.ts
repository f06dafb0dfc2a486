import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { type Candidate, environmentIn } from "./candidate.ts";
import { type Created, createEnvironment, isComplete, type SetUpOptions } from "./create.ts";
import { MANAGED } from "./environment.ts";
import { foldersIn } from "./folders.ts";
import { standardPackages } from "./packages.ts";
import { createCommand } from "./remedy.ts";

/** The folder of an environment that Cellwright made. */
export function managedEnvironmentDir(dataDir: string, name: string = MANAGED): string {
  return join(dataDir, "envs", name);
}

/** Whether it has been created, to the end. Does not start its interpreter. */
export function isManagedCreated(dataDir: string, name: string = MANAGED): boolean {
  return isComplete(managedEnvironmentDir(dataDir, name));
}

/** The environments that Cellwright made, the one without a name of its own first, there or not. */
export function managedEnvironments(dataDir: string): Candidate[] {
  const names = foldersIn(join(dataDir, "envs")).map((folder) => basename(folder));
  return [MANAGED, ...names.filter((name) => name !== MANAGED)].map((name) => managedEnvironment(dataDir, name));
}

export function managedEnvironment(dataDir: string, name: string): Candidate {
  const folder = managedEnvironmentDir(dataDir, name);
  const candidate = { ...environmentIn(folder, name), kind: "managed" as const };
  if (isComplete(folder)) return candidate;
  const obstacle = existsSync(folder)
    ? `The environment \`${name}\` was not created to the end.`
    : `The environment \`${name}\` has not been created.`;
  return { ...candidate, obstacle };
}

/** Makes the environment, or adds packages that it lacks. Throws `env_error`. */
export async function createManaged(
  options: SetUpOptions & { dataDir: string; name?: string | undefined; packages?: string[] },
): Promise<Created> {
  const { dataDir, name = MANAGED, packages = [], ...rest } = options;
  refuseBadName(name);
  return createEnvironment({
    ...rest,
    folder: managedEnvironmentDir(dataDir, name),
    cacheDir: join(dataDir, "cache"),
    packages: [...standardPackages, ...packages],
  });
}

/** Removes one that Cellwright made. Returns its folder; throws `env_error` when there is none. */
export async function removeManaged(dataDir: string, name: string = MANAGED): Promise<string> {
  refuseBadName(name);
  const folder = managedEnvironmentDir(dataDir, name);
  if (!existsSync(folder)) {
    const names = foldersIn(join(dataDir, "envs")).map((it) => `\`${basename(it)}\``);
    const hint = names.length > 0 ? `There are ${names.join(", ")}.` : `\`${createCommand(MANAGED)}\` makes one.`;
    throw new CellwrightError("env_error", `Cellwright made no environment \`${name}\`.`, { hint });
  }
  // The mark goes first: what is left of an interrupted removal is not taken for an environment.
  await rm(join(folder, "cellwright.json"), { force: true });
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return folder;
}

function refuseBadName(name: string): void {
  if (/^[a-z0-9][\w.-]{0,63}$/i.test(name) && name !== "wasm") return;
  throw new CellwrightError("invalid_input", `\`${name}\` cannot be an environment's name.`, {
    hint: "Use letters, digits, `-`, `_` and `.`, at most 64; `wasm` is taken.",
  });
}
