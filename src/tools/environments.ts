import * as z from "zod";
import type { Environment } from "../kernels/kernel.ts";
import { defineTool } from "../mcp/tool.ts";
import { table } from "./table.ts";

/** Packages shown of one environment: enough to choose by, one line. */
const MAX_PACKAGES = 12;

const listEnvironments = defineTool({
  name: "list_environments",
  title: "List environments",
  description:
    "Lists the Python environments that `env` of execute_code can name, with version and packages, ready or why not.",
  readOnly: true,
  input: z.object({}),
  async run(_, { sessions, signal }) {
    const environments = await sessions.environments(signal);
    const data = { environments: environments.map(asData) };
    if (environments.length === 0) {
      const text = "There is no choice here: all sessions run in WebAssembly, without `env`.";
      return { type: "text", text, data };
    }
    const rows = environments.map(({ name, kind, python = "–", obstacle, isDefault, path }) => [
      name + (isDefault ? " (default)" : ""),
      kind,
      python,
      obstacle ? "not ready" : "ready",
      path,
    ]);
    const details = environments.flatMap(detail);
    return {
      type: "text",
      text: [table(["name", "kind", "Python", "state", "path"], rows), ...details].join("\n"),
      data,
    };
  },
});

export default [listEnvironments];

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
    path,
    python: python ?? null,
    packages,
    ready: obstacle === undefined,
    obstacle: obstacle ?? null,
    is_default: isDefault === true,
  };
}
