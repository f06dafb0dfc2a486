import * as z from "zod";
import type { Environment } from "../kernels/kernel.ts";
import { table } from "./table.ts";
import { defineTool } from "./tool.ts";

/** Packages shown per environment: enough to choose one, on one line. */
const MAX_PACKAGES = 12;

const listEnvironments = defineTool({
  name: "list_environments",
  title: "List environments",
  description: "Lists the Python environments for `env` of execute_code: version, packages, and whether each is ready.",
  readOnly: true,
  input: z.object({}),
  async run(_, { sessions, signal, local }) {
    const all = (await sessions.provider.environments?.(signal)) ?? [];
    const environments = local ? all : all.flatMap(withoutPaths);
    const data = { environments: environments.map(asData) };
    if (environments.length === 0) {
      const text = "No environments: all sessions run in WebAssembly. Leave out `env`.";
      return { type: "text", text, data };
    }
    const rows = environments.map(({ name, kind, python = "–", obstacle, isDefault, path }) => [
      name + (isDefault ? " (default)" : ""),
      kind,
      python,
      obstacle ? "not ready" : "ready",
      ...(local ? [path] : []),
    ]);
    const columns = ["name", "kind", "Python", "state", ...(local ? ["path"] : [])];
    const details = environments.flatMap(detail);
    return {
      type: "text",
      text: [table(columns, rows), ...details].join("\n"),
      data,
    };
  },
});

export default [listEnvironments];

/**
 * The view of HTTP clients: paths would reveal the users and projects of this machine. Environments that can only be
 * chosen by path are left out, and so are the reasons why one is not ready, which contain paths.
 */
function withoutPaths(environment: Environment): Environment[] {
  const { name, isDefault, obstacle } = environment;
  const isPath = /[/\\]/.test(name);
  if (isPath && !isDefault) return [];
  const shown = isPath ? (name.split(/[/\\]+/).findLast(Boolean) ?? "default") : name;
  const why = obstacle === undefined ? {} : { obstacle: "Not ready. `cellwright env list` on the server says why." };
  return [{ ...environment, ...why, name: shown, path: "" }];
}

function detail({ name, packages, obstacle }: Environment): string[] {
  if (obstacle) return ["", `${name}: ${obstacle}`];
  if (packages.length === 0) return [];
  const more = packages.length > MAX_PACKAGES ? ` and ${packages.length - MAX_PACKAGES} more` : "";
  return ["", `${name}: ${packages.slice(0, MAX_PACKAGES).join(", ")}${more}`];
}

function asData({ name, kind, path, python, packages, obstacle, isDefault }: Environment) {
  return {
    name,
    kind,
    ...(path === "" ? {} : { path }),
    python: python ?? null,
    packages,
    ready: obstacle === undefined,
    obstacle: obstacle ?? null,
    is_default: isDefault === true,
  };
}
