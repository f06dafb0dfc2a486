// Suites that break things and wait: `npm run faults`. Too long for `npm test`, run whole by CI.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
// They are the same in the short form.
const args = process.argv.slice(2).filter((arg) => arg !== "--short");
const { status } = spawnSync(process.execPath, [vitest, "run", "--config", "vitest.faults.config.ts", ...args], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
