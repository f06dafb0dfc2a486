// All measurements, one after another: `npm run bench`, with `-- --check` to fail below the bars.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const failed = ["wasm.mjs", "packages.mjs", "local.mjs", "pool.mjs", "remote.mjs"].filter((name) => {
  const file = fileURLToPath(new URL(name, import.meta.url));
  return spawnSync(process.execPath, [file, ...process.argv.slice(2)], { stdio: "inherit" }).status !== 0;
});
process.exit(failed.length > 0 ? 1 : 0);
