// Cost of using a package image, as ratios of one run; `--check` fails if a limit is missed.
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createPackages } from "../dist/kernels/wasm/packages/packages.js";
import { createSnapshots } from "../dist/kernels/wasm/snapshot.js";
import { findSources } from "../dist/kernels/wasm/sources.js";
import { startKernel } from "../dist/kernels/wasm/start.js";
import { createLog } from "../dist/log.js";
import { folder, measure, report } from "./bench.mjs";
import { median } from "./measure.mjs";

const log = createLog("warn");
const { signal } = new AbortController();
const sources = findSources();
const packages = createPackages({ cacheDir: folder, env: process.env, log }, sources);
const snapshots = createSnapshots({
  sources,
  cacheDir: folder,
  isolation: undefined,
  memoryMb: 1024,
  disposing: signal,
  log,
});
const code = "import sympy, networkx, plotly.graph_objects";

await measure(() => compareSnapshots().finally(() => packages.dispose()));

async function compareSnapshots() {
  let image;
  const buildMs = await median(1, async () => {
    image = await packages.image(["sympy", "networkx", "plotly"], { signal });
  });
  report.say("image of sympy, networkx and plotly, s to build", (buildMs / 1000).toFixed(1));
  const plain = await snapshots.get();
  const imported = await snapshots.get({ image });
  const bare = { ...image, siteDir: withoutCompiled(image.siteDir) };

  const [importedMs, plainMs, bareMs] = [[], [], []];
  for (let i = 0; i < 5; i += 1) {
    importedMs.push(await firstResult(imported, image));
    plainMs.push(await firstResult(plain, image));
    bareMs.push(await firstResult(plain, bare));
  }
  const [fast, slow, slowest] = [importedMs, plainMs, bareMs].map(
    (times) => times.sort((a, b) => a.total - b.total)[2],
  );
  const shown = [fast, slow, slowest].map(({ total }) => total.toFixed(0)).join(" / ");
  report.say("session to first result, ms: imported / plain / without .pyc", shown);
  report.ratio("imported snapshot, times faster than plain + import", slow.total / fast.total, { atLeast: 4 });
  report.ratio("compiled, times faster to import than not", slowest.cell / slow.cell, { atLeast: 1.8 });
}

async function firstResult(snapshot, image) {
  const own = mkdtempSync(join(folder, "session-"));
  const slot = { sessionId: "bench", workspaceDir: join(own, "workspace"), runDir: join(own, "run") };
  const began = performance.now();
  const kernel = await startKernel({
    ...{ sources, snapshot, slot, image, memoryMb: 1024, diskMb: 1024, startTimeoutMs: 60_000, signal, log },
    ...{ isolation: undefined, layers: [], readable: [], notes: [] },
  });
  const started = performance.now();
  for await (const event of kernel.execute(code)) {
    if (event.type === "error") throw new Error(event.message);
    if (event.type === "done") break;
  }
  const ended = performance.now();
  await kernel.dispose();
  return { total: ended - began, cell: ended - started };
}

function withoutCompiled(siteDir) {
  const copy = join(folder, "without-compiled");
  cpSync(siteDir, copy, { recursive: true });
  for (const name of readdirSync(copy, { recursive: true })) {
    if (name.endsWith("__pycache__")) rmSync(join(copy, name), { recursive: true, force: true });
  }
  return copy;
}
