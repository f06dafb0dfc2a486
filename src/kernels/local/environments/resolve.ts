import { existsSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { nearest } from "../../../nearest.ts";
import { UnusablePath, wayTo } from "../../../reach/way.ts";
import { managedEnvironment } from "./create/managed.ts";
import { type Candidate, environmentAt } from "./discover/candidate.ts";
import { listedByConda } from "./discover/conda.ts";
import { expanded } from "./discover/folders.ts";
import { envRootOf, isCalled, isPath, namedEnvironments, placesOf } from "./discover/named.ts";
import { usualEnvironment } from "./discover/usual.ts";
import { type EnvironmentsConfig, MANAGED, USUAL } from "./environment.ts";
import { makeVenv } from "./remedy.ts";

/** Resolves a name or a path. Throws `env_error` for an unknown name. */
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

/** Rejects paths through /proc, /sys and /dev: a link in there can lead into a session's jail. */
function atPath(name: string, config: EnvironmentsConfig): Candidate {
  const path = expanded(name, placesOf(config));
  try {
    wayTo(path);
  } catch (error) {
    if (!(error instanceof UnusablePath)) return { name, kind: "venv", path, byPath: true };
    throw new CellwrightError("env_error", error.message, {
      hint: "Use the real path of the environment, or call list_environments.",
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
    const hint = `${meant}Call list_environments and choose one.`;
    return new CellwrightError("env_error", `There is no environment \`${name}\` on this server.`, { hint });
  }
  const command = existsSync(root) || /^[\w.-]+$/.test(name) ? ` or create it: \`${makeVenv(join(root, name))}\`` : "";
  return new CellwrightError(
    "env_error",
    `There is no environment \`${name}\`, neither in ${root} nor among those of conda, pixi and Jupyter.`,
    { hint: `${meant}Call list_environments and choose one${command && `,${command}`}.` },
  );
}
