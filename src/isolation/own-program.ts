import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** The folders that this program runs from. If it is an installed package, the `node_modules` around it as well. */
export function ownProgramPaths(program = root): string[] {
  const installed = /^(.*?[/\\]node_modules)[/\\]/.exec(`${program}/`)?.[1];
  const own = ["dist", "src", "node_modules", "scripts", "package.json"].map((name) => join(program, name));
  return installed === undefined ? own : [installed, ...own];
}
