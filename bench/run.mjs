// All measurements, one after another: `npm run bench`, with `-- --check` to fail if a limit is missed.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const measurements = ["wasm", "packages", "local", "pool", "remote", "workspace", "interrupts", "files-passed"];
const failed = measurements.filter((name) => {
  const file = fileURLToPath(new URL(`${name}.mjs`, import.meta.url));
  return spawnSync(process.execPath, [file, ...process.argv.slice(2)], { stdio: "inherit" }).status !== 0;
});
process.exit(failed.length > 0 ? 1 : 0);
