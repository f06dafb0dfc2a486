import { existsSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { nearest } from "../../../nearest.ts";
import { type Candidate, environmentAt, environmentIn } from "./candidate.ts";
import { condaEnvironments, listedByConda } from "./conda.ts";
import { type EnvironmentsConfig, MANAGED, USUAL } from "./environment.ts";
import { expanded, foldersIn, homeOf } from "./folders.ts";
import { kernelspecs } from "./kernelspec.ts";
import { managedEnvironment, managedEnvironments } from "./managed.ts";
import { pixiEnvironments } from "./pixi.ts";
import { makeVenv } from "./remedy.ts";
import { usualEnvironment } from "./usual.ts";

/** What a name or a path leads to. Throws `env_error` when nothing has that name. */
export async function resolveName(name: string, config: EnvironmentsConfig, signal?: AbortSignal): Promise<Candidate> {
  if (name.includes("\0") || name.length > 1024) throw notFound(name.slice(0, 50), config, []);
  if (isPath(name)) return environmentAt(expanded(name, placesOf(config)), name);
  if (name === MANAGED) return managedEnvironment(config.dataDir, MANAGED);
  if (name === USUAL) return usualEnvironment(config);
  const named = namedEnvironments(config);
  const found = named.find((candidate) => isCalled(candidate, name));
  if (found) return found;
  const listed = await listedByConda(config.env, signal);
  const candidate = listed.find((one) => isCalled(one, name));
  if (candidate) return candidate;
  throw notFound(name, config, [...named, ...listed]);
}

/** All that have a name, in the order in which a name is looked for. Starts nothing. */
export function namedEnvironments(config: EnvironmentsConfig): Candidate[] {
  const { dataDir, env } = config;
  const [managed, ...others] = managedEnvironments(dataDir);
  return [
    ...(managed ? [managed] : []),
    ...foldersIn(envRoot(config)).map((folder) => environmentIn(folder, folder.slice(envRoot(config).length + 1))),
    ...others,
    ...condaEnvironments(env),
    ...pixiEnvironments(env, placesOf(config).workingDir),
    ...kernelspecs(env),
  ];
}

/** `/data/envs/x`, `~/x`, `./x`, `.venv`: what cannot be a name. */
function isPath(name: string): boolean {
  return /[/\\]/.test(name) || /^[.~]/.test(name);
}

function isCalled(candidate: Candidate, name: string): boolean {
  return candidate.name === (candidate.kind === "kernelspec" ? name.toLowerCase() : name);
}

function envRoot(config: EnvironmentsConfig): string {
  return expanded(config.envRoot, placesOf(config));
}

function placesOf({ env, workingDir = process.cwd() }: EnvironmentsConfig) {
  return { home: homeOf(env), workingDir };
}

function notFound(name: string, config: EnvironmentsConfig, known: Candidate[]): CellwrightError {
  const root = envRoot(config);
  const alike = nearest(
    name,
    known.filter(({ obstacle }) => !obstacle).map((candidate) => candidate.name),
  );
  const meant = alike.length > 0 ? `Did you mean ${alike.map((it) => `\`${it}\``).join(" or ")}? ` : "";
  const command = existsSync(root) || /^[\w.-]+$/.test(name) ? ` or create it: \`${makeVenv(join(root, name))}\`` : "";
  return new CellwrightError(
    "env_error",
    `There is no environment \`${name}\`: nothing in ${root}, and none of conda, pixi or Jupyter is called so.`,
    { hint: `${meant}Call list_environments to see what there is,${command || " and choose one"}.` },
  );
}
