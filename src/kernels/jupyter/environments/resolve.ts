import { existsSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { nearest } from "../../../nearest.ts";
import { NotAPlace, wayTo } from "../../../reach/way.ts";
import { type Candidate, environmentAt } from "./candidate.ts";
import { listedByConda } from "./conda.ts";
import { type EnvironmentsConfig, MANAGED, USUAL } from "./environment.ts";
import { expanded } from "./folders.ts";
import { managedEnvironment } from "./managed.ts";
import { envRootOf, isCalled, isPath, namedEnvironments, placesOf } from "./named.ts";
import { makeVenv } from "./remedy.ts";
import { usualEnvironment } from "./usual.ts";

/** What a name or a path leads to. Throws `env_error` when nothing has that name. */
export async function resolveName(name: string, config: EnvironmentsConfig, signal?: AbortSignal): Promise<Candidate> {
  if (name.includes("\0") || name.length > 1024) throw notFound(name.slice(0, 50), config, []);
  if (isPath(name)) return atPath(name, config);
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

/** Nothing is looked at behind a link that leads into a session's jail, or into the kernel's own files. */
function atPath(name: string, config: EnvironmentsConfig): Candidate {
  const path = expanded(name, placesOf(config));
  try {
    wayTo(path);
  } catch (error) {
    if (!(error instanceof NotAPlace)) return { name, kind: "venv", path, byPath: true };
    throw new CellwrightError("env_error", error.message, {
      hint: "Name the environment by the path where it really is, or call list_environments.",
    });
  }
  return { ...environmentAt(path, name), byPath: true };
}

function notFound(name: string, config: EnvironmentsConfig, known: Candidate[]): CellwrightError {
  const root = envRootOf(config);
  const alike = nearest(
    name,
    known.filter(({ obstacle }) => !obstacle).map((candidate) => candidate.name),
  );
  const meant = alike.length > 0 ? `Did you mean ${alike.map((it) => `\`${it}\``).join(" or ")}? ` : "";
  if (!config.allowPaths) {
    const hint = `${meant}Call list_environments to see what there is, and choose one.`;
    return new CellwrightError("env_error", `There is no environment \`${name}\` on this server.`, { hint });
  }
  const command = existsSync(root) || /^[\w.-]+$/.test(name) ? ` or create it: \`${makeVenv(join(root, name))}\`` : "";
  return new CellwrightError(
    "env_error",
    `There is no environment \`${name}\`: nothing in ${root}, and none of conda, pixi or Jupyter is called so.`,
    { hint: `${meant}Call list_environments to see what there is,${command || " and choose one"}.` },
  );
}
