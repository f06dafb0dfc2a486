// `npm run conformance`: the official suite against its own fixture behind our HTTP code, and the scenarios that apply to
// any server against the product. The suite needs Node 22 or newer, so npm's `node` package runs it, from a separate
// cache: as a dev dependency its binary would become the `node` of every npm script.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const cache = join(root, "node_modules/.cache/conformance");

const packages = {
  node: "24.21.0",
  // The released suite for revisions until 2025-11-25; for 2026-07-28 the only one that supports it.
  "suite-2025": "npm:@modelcontextprotocol/conformance@0.1.16",
  "suite-2026": "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
};

/** Scenarios that apply to any server, whatever its tools. */
const productScenarios = {
  "suite-2025": [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "logging-set-level",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
  ],
  "suite-2026": ["tools-list", "resources-list", "http-header-validation", "sep-2164-resource-not-found"],
};

install();
const results = [...(await testFixture()), ...(await testProduct())];
console.log(`\n${results.map(({ name, ok }) => `${ok ? "ok    " : "FAILED"}  ${name}`).join("\n")}`);
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;

function install() {
  const manifest = JSON.stringify({ private: true, dependencies: packages });
  const file = join(cache, "package.json");
  if (existsSync(node()) && existsSync(file) && readFileSync(file, "utf8") === manifest) return;
  console.log("installing the conformance suite and a newer Node for it");
  rmSync(cache, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  writeFileSync(file, manifest);
  const args = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
  const run = spawnSync("npm", args, { cwd: cache, stdio: "inherit", shell: process.platform === "win32" });
  if (run.status === 0 && existsSync(node())) return;
  rmSync(file, { force: true });
  throw new Error("the conformance suite could not be installed");
}

function node() {
  return join(cache, "node_modules/node/bin/node");
}

async function testFixture() {
  const fixture = await start(node(), [join(here, "fixture.ts")]);
  try {
    const expected = ["--expected-failures", join(here, "expected-failures.yml")];
    return [
      runSuite("suite-2025", fixture.url, { name: "fixture, 2025-11-25", args: expected }),
      runSuite("suite-2026", fixture.url, { name: "fixture, 2026-07-28" }),
      ...["caching", "http-header-validation", "sep-2164-resource-not-found"].map((scenario) =>
        runSuite("suite-2026", fixture.url, {
          name: `fixture, 2026-07-28, ${scenario}`,
          args: ["--scenario", scenario],
        }),
      ),
    ];
  } finally {
    await fixture.stop();
  }
}

async function testProduct() {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-conformance-"));
  const args = [join(root, "dist/main.js"), "serve", "--insecure", "--port", "0", "--warm", "0", "--data-dir", dataDir];
  const product = await start(process.execPath, args);
  try {
    return Object.entries(productScenarios).flatMap(([suite, scenarios]) =>
      scenarios.map((scenario) =>
        runSuite(suite, product.url, { name: `product, ${suite}, ${scenario}`, args: ["--scenario", scenario] }),
      ),
    );
  } finally {
    await product.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Runs the suite or one of its scenarios; prints its output only if it fails. */
function runSuite(suite, url, { name, args = [] }) {
  const cli = join(cache, `node_modules/${suite}/dist/index.js`);
  const revision = suite === "suite-2026" ? ["--spec-version", "2026-07-28"] : [];
  const run = spawnSync(node(), [cli, "server", "--url", url, ...revision, ...args], {
    cwd: cache,
    encoding: "utf8",
    timeout: 180_000,
    maxBuffer: 64 * 1024 * 1024,
  });
  const ok = run.status === 0;
  if (!ok) console.log(`\n── ${name}\n${run.stdout}${run.stderr}${run.error ?? ""}`);
  return { name, ok };
}

/** Starts a server and waits for the address it prints. */
async function start(command, args) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (chunk) => {
      text += chunk;
      const found = /http:\/\/\S+\/mcp/.exec(text);
      if (found) resolve(found[0]);
    });
    child.once("error", reject);
    ended.then((code) => reject(new Error(`${args[0]} ended with ${code} before it listened`)));
  });
  return {
    url,
    async stop() {
      child.kill();
      await ended;
    },
  };
}
