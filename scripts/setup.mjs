// Prepares a fresh clone, as prestart and pretest: installs and builds what is missing or stale. No dependencies, because
// it runs before they are installed.
//
//   node scripts/setup.mjs build    npm packages, dist
//   node scripts/setup.mjs start    also the managed Python environment
//   node scripts/setup.mjs test     npm packages, dist, and the tests' system requirements
//
// A missing Python or system package is reported, but not fatal.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, isStale } from "./build.mjs";
import { rememberFailures } from "./remember-failures.mjs";
import { prepareTestMachine } from "./test-machine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const mode = process.argv[2];

if (!["build", "start", "test"].includes(mode)) stop("usage: node scripts/setup.mjs start|test|build");
checkNode();
installPackages();
checkDeno();
buildDist();
if (mode === "start") await createManagedEnvironment();
if (mode === "test") await prepareTestMachine({ root, say });

function checkNode() {
  const wanted = readJson("package.json").engines.node.replace(">=", "").split(".").map(Number);
  const have = process.versions.node.split(".").map(Number);
  const enough = have[0] > wanted[0] || (have[0] === wanted[0] && have[1] >= wanted[1]);
  if (!enough) stop(`Cellwright needs Node ${wanted.join(".")} or newer; this is Node ${process.versions.node}.`);
}

function installPackages() {
  const reason = whyInstall();
  if (!reason) return;
  say(`installing npm packages (${reason})`);
  // `include`, because the build needs TypeScript even where NODE_ENV is production, and Deno's binary is optional.
  const args = ["ci", "--include=dev", "--include=optional", "--loglevel=error"];
  const cli = process.env.npm_execpath;
  const run =
    cli && basename(cli) === "npm-cli.js"
      ? spawnSync(process.execPath, [cli, ...args], { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
      : spawnSync("npm", args, {
          cwd: root,
          stdio: ["ignore", "ignore", "inherit"],
          shell: process.platform === "win32",
        });
  if (run.status !== 0) stop("`npm ci` failed; its message is above. Fix that and run the same command again.");
}

/** npm writes this file last, so it is missing or stale after an interrupted installation. */
function whyInstall() {
  if (!existsSync(join(root, "node_modules/.package-lock.json"))) return "none installed yet";
  const installed = readJson("node_modules/.package-lock.json").packages;
  const wanted = Object.entries(readJson("package-lock.json").packages).filter(([path]) => path !== "");
  const differs = wanted.find(([path, entry]) =>
    installed[path] ? installed[path].integrity !== entry.integrity : !entry.optional,
  );
  return differs && `package-lock.json needs another ${differs[0].replace(/^.*node_modules\//, "")}`;
}

/** A missing Deno is not fatal: the server starts, and sessions without a WASM kernel report it. */
function checkDeno() {
  const { platform, arch } = process;
  const musl = platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
  if (musl) return say("Deno has no build for musl (Alpine), so WASM kernels cannot run here; use a glibc system.");

  const name = `@deno/${platform}-${arch}${platform === "linux" ? "-glibc" : ""}`;
  const fromDeno = createRequire(join(root, "node_modules/deno/package.json"));
  if (!fromDeno("./package.json").optionalDependencies[name])
    return say(`Deno has no build for ${platform} on ${arch}, so WASM kernels cannot run here.`);
  const binary = join(root, "node_modules", name, platform === "win32" ? "deno.exe" : "deno");
  if (!existsSync(binary))
    say(`Deno's binary is missing (${name}), so WASM kernels cannot run. Run \`npm ci --include=optional\`.`);
}

function buildDist() {
  if (!isStale()) return;
  say(existsSync(join(root, "dist")) ? "building dist (sources changed)" : "building dist");
  const complaints = build();
  if (complaints) stop(`the build failed:\n${complaints}`);
}

/** Sessions use it instead of WASM, which remains the fallback. */
async function createManagedEnvironment() {
  if (!["", "0", undefined].includes(process.env.CELLWRIGHT_NO_ENV)) return;
  const { parseOptions } = await import("../dist/options/options.js");
  const { isManagedCreated } = await import("../dist/kernels/local/environments/create/managed.js");
  const { dataDir } = parseOptions([], process.env, (path) => readFileSync(path, "utf8")).options;
  if (isManagedCreated(dataDir)) return;
  const what = "creating the managed Python environment, once (600 MB; CELLWRIGHT_NO_ENV=1 skips it)";
  await rememberFailures({ folder: join(root, ".cache/setup-failures"), say, consequence: "sessions run in WASM" })(
    "managed-environment",
    what,
    () => {
      const program = [join(root, "dist/main.js"), "env", "create"];
      const { status } = spawnSync(process.execPath, program, { stdio: ["ignore", "inherit", "inherit"] });
      return status === 0 ? undefined : "`cellwright env create` says why";
    },
  );
}

function readJson(path) {
  return JSON.parse(readFileSync(join(root, path), "utf8"));
}

function say(sentence) {
  console.log(`setup: ${sentence}`);
}

function stop(sentence) {
  console.error(`setup: ${sentence}`);
  process.exit(1);
}
