// Builds dist from src: compiles, copies other files, makes the program executable. Depends only on tsc.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const src = join(root, "src");
const dist = join(root, "dist");
const stamp = join(root, ".cache", "dist.sha256");

/** True if dist is missing or was built from other sources. */
export function isStale() {
  return !existsSync(join(dist, "main.js")) || !existsSync(stamp) || readFileSync(stamp, "utf8") !== sourceHash();
}

/** Returns the compiler's errors, or undefined on success. A failed build keeps the old dist. */
export function build() {
  const hash = sourceHash();
  // Built in another folder and swapped in, so that running servers and tests never see a partial build.
  const fresh = join(root, `.cache/dist-${process.pid}`);
  const old = `${fresh}-old`;
  try {
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const args = ["-p", join(root, "tsconfig.build.json"), "--outDir", fresh, "--pretty", "false"];
    const run = spawnSync(process.execPath, [tsc, ...args], { cwd: root, encoding: "utf8" });
    if (run.status !== 0) return run.stdout + run.stderr || String(run.error ?? `tsc ended with ${run.signal}`);

    for (const file of filesBelow(src).filter((file) => !/\.[mc]?tsx?$/.test(file))) {
      const target = join(fresh, relative(src, file));
      mkdirSync(dirname(target), { recursive: true });
      copyFileSync(file, target);
    }
    if (existsSync(join(fresh, "main.js"))) chmodSync(join(fresh, "main.js"), 0o755);

    if (existsSync(dist)) renameSync(dist, old);
    renameSync(fresh, dist);
    writeFileSync(stamp, hash);
    return undefined;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(old, { recursive: true, force: true });
  }
}

function sourceHash() {
  const hash = createHash("sha256");
  const settings = ["tsconfig.json", "tsconfig.build.json", "scripts/build.mjs"].map((file) => join(root, file));
  for (const file of [...settings, ...filesBelow(src)]) {
    const bytes = readFileSync(file);
    hash.update(`${relative(root, file)}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith(".") && entry.name !== "__pycache__")
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesBelow(path) : [path];
    });
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const complaints = build();
  if (complaints) {
    process.stderr.write(complaints);
    process.exitCode = 1;
  }
}
