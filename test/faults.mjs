// Suites that break things and wait: `npm run faults`. Too long for `npm test`, run whole by CI.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
const args = process.argv.slice(2).filter((arg) => arg !== "--short");
// Fewer rounds of what is repeated (test/support/rounds.ts); nothing is left out.
const env = process.argv.includes("--short") ? { ...process.env, CELLWRIGHT_SHORT: "1" } : process.env;
const { status } = spawnSync(process.execPath, [vitest, "run", "--config", "vitest.faults.config.ts", ...args], {
  cwd: root,
  env,
  stdio: "inherit",
});
process.exit(status ?? 1);
