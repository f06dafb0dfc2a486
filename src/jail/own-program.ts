import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** What this program runs from, outside: of a package that is installed, also those that it was installed with. */
export function ownProgramPaths(program = root): string[] {
  const installed = /^(.*?[/\\]node_modules)[/\\]/.exec(`${program}/`)?.[1];
  const own = ["dist", "src", "node_modules", "scripts", "package.json"].map((name) => join(program, name));
  return installed === undefined ? own : [installed, ...own];
}
