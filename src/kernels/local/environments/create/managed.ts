import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { CellwrightError } from "../../../../errors.ts";
import { type Candidate, environmentIn } from "../discover/candidate.ts";
import { foldersIn } from "../discover/folders.ts";
import { MANAGED } from "../environment.ts";
import { createCommand } from "../remedy.ts";
import { type Created, createEnvironment, isComplete, RECORD, type SetUpOptions } from "./create.ts";
import { standardPackages } from "./packages.ts";

/** The folder of a managed environment. */
export function managedEnvironmentDir(dataDir: string, name: string = MANAGED): string {
  return join(dataDir, "envs", name);
}

/** Whether it was created completely. Does not start its interpreter. */
export function isManagedCreated(dataDir: string, name: string = MANAGED): boolean {
  return isComplete(managedEnvironmentDir(dataDir, name));
}

/** The managed environments; the default one first, even if it does not exist. */
export function managedEnvironments(dataDir: string): Candidate[] {
  const names = foldersIn(join(dataDir, "envs")).map((folder) => basename(folder));
  return [MANAGED, ...names.filter((name) => name !== MANAGED)].map((name) => managedEnvironment(dataDir, name));
}

export function managedEnvironment(dataDir: string, name: string): Candidate {
  const folder = managedEnvironmentDir(dataDir, name);
  const candidate = { ...environmentIn(folder, name), kind: "managed" as const };
  if (isComplete(folder)) return candidate;
  const obstacle = existsSync(folder)
    ? `The environment \`${name}\` is incomplete: its creation was interrupted.`
    : `The environment \`${name}\` has not been created.`;
  return { ...candidate, obstacle };
}

/** Creates the environment, or adds missing packages. Throws `env_error`. */
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

/** Removes a managed environment. Returns its folder; throws `env_error` if it does not exist. */
export async function removeManaged(dataDir: string, name: string = MANAGED): Promise<string> {
  refuseBadName(name);
  const folder = managedEnvironmentDir(dataDir, name);
  if (!existsSync(folder)) {
    const names = foldersIn(join(dataDir, "envs")).map((it) => `\`${basename(it)}\``);
    const hint = names.length > 0 ? `There are ${names.join(", ")}.` : `\`${createCommand(MANAGED)}\` creates one.`;
    throw new CellwrightError("env_error", `There is no managed environment \`${name}\`.`, { hint });
  }
  // The record goes first, so that an interrupted removal does not leave a seemingly complete environment.
  await rm(join(folder, RECORD), { force: true });
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  return folder;
}

function refuseBadName(name: string): void {
  if (/^[a-z0-9][\w.-]{0,63}$/i.test(name) && name !== "wasm") return;
  throw new CellwrightError("invalid_input", `\`${name}\` cannot be an environment's name.`, {
    hint: "Use letters, digits, `-`, `_` and `.`, at most 64; `wasm` is taken.",
  });
}
