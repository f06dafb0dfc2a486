// Suites that break things and wait: `npm run faults`. Too long for `npm test`; CI runs the short form.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
const isShort = process.argv.includes("--short");
const args = process.argv.slice(2).filter((arg) => arg !== "--short");
// Fewer rounds of what is repeated (test/support/rounds.ts), and no packages from the real index, which take minutes.
if (isShort) args.push("--exclude", "**/real-index.faults.ts", "--exclude", "test/e2e/packages.faults.ts");
const env = isShort ? { ...process.env, CELLWRIGHT_SHORT: "1" } : process.env;
const { status } = spawnSync(process.execPath, [vitest, "run", "--project", "faults", ...args], {
  cwd: root,
  env,
  stdio: "inherit",
});
process.exit(status ?? 1);
