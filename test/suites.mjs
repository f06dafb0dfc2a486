// Runs suites of vitest.config.ts in one go: `node test/suites.mjs NAME… [--short] [files and options for vitest]`.
// Together they take less time than one after another, because no processor waits for the last test of each.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
const given = process.argv.slice(2);
const isShort = given.includes("--short");
const end = given.findIndex((arg) => !/^[a-z]+$/.test(arg));
const names = end === -1 ? given : given.slice(0, end);
const options = given.slice(names.length).filter((arg) => arg !== "--short");
// Fewer rounds of what is repeated (test/support/rounds.ts), and no packages from the real index, which take minutes.
if (isShort) options.push("--exclude", "**/real-index.faults.ts", "--exclude", "test/e2e/packages.faults.ts");
const env = isShort ? { ...process.env, CELLWRIGHT_SHORT: "1" } : process.env;
const projects = names.flatMap((name) => ["--project", name]);
const { status } = spawnSync(process.execPath, [vitest, "run", ...projects, ...options], {
  cwd: root,
  env,
  stdio: "inherit",
});
process.exit(status ?? 1);
