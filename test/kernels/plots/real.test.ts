import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decode } from "fast-png";
import { beforeAll, describe, expect, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { Kernel } from "../../../src/kernels/kernel.ts";
import { readDistribution } from "../../../src/kernels/wasm/packages/build/distribution.ts";
import { findSources } from "../../../src/kernels/wasm/sources.ts";
import { failure, result, run, text } from "../../contracts/kernel.ts";
import { wasmKernels } from "../wasm/wasm-kernels.ts";

/** The real libraries, unpacked into the workspace: to test against their actual internals. */
const kernels = wasmKernels({ diskMb: 2_048, memoryMb: 1_024 });

async function startWith(putWheels: (workspaceDir: string) => void | Promise<void>): Promise<Kernel> {
  const { kernel, workspaceDir } = await kernels.start();
  await putWheels(workspaceDir);
  const unpack = "import glob, zipfile\nfor name in glob.glob('*.whl'): zipfile.ZipFile(name).extractall('.')";
  expect(failure(await run(kernel, unpack))).toBeUndefined();
  return kernel;
}

function pictures(events: ExecutionEvent[]) {
  return events.flatMap((event) => {
    if (event.type !== "display" && event.type !== "result") return [];
    const data = event.data["image/png"];
    return typeof data === "string" ? [decode(Buffer.from(data, "base64"))] : [];
  });
}

/** pip knows which index this machine uses. */
function downloadPlotly(): string | undefined {
  const folder = join(import.meta.dirname, "../../../node_modules/.cache/cellwright-test/plotly-7.1.0");
  mkdirSync(folder, { recursive: true });
  const options = ["--quiet", "--only-binary=:all:", "--no-deps", "--timeout=15", "--retries=1", "-d", folder];
  const wheels = ["plotly==7.1.0", "narwhals==2.28.0", "packaging==26.3"];
  if (readdirSync(folder).length === wheels.length) return folder;
  const pip = spawnSync("python3", ["-m", "pip", "download", ...options, ...wheels], { timeout: 100_000 });
  return pip.status === 0 ? folder : undefined;
}

const wheelDir = downloadPlotly();

describe.skipIf(!wheelDir)(`plotly itself${wheelDir ? "" : " (skipped: the package index is not reachable)"}`, () => {
  let kernel: Kernel;
  beforeAll(async () => {
    kernel = await startWith((workspaceDir) => {
      for (const name of readdirSync(wheelDir ?? ""))
        copyFileSync(join(wheelDir ?? "", name), join(workspaceDir, name));
    });
    expect(failure(await run(kernel, "import plotly.graph_objects as go"))).toBeUndefined();
  });

  const make = [
    "fig = go.Figure([go.Scatter(x=[1, 2, 3], y=[4, 1.5, 9], name='North'), go.Bar(x=['a', 'b'], y=[2, 3])])",
    "fig.update_layout(title='Sales', xaxis_title='month')",
  ].join("\n");
  const summary = [
    'plotly figure "Sales": 2 traces; axes: x "month"',
    '- scatter "North": 3 points, x 1 to 3, y 1.5 to 9',
    "- bar: 2 points, x a, b, y 2 to 3",
  ].join("\n");

  test.each([
    ["as the last expression", "fig", "result"],
    ["by show()", "fig.show()", "display"],
    ["by show() with another renderer", "fig.show(renderer='browser')", "display"],
    ["by plotly.io", "import plotly.io as pio\npio.renderers.default = 'notebook'\npio.show(fig)", "display"],
  ])("a figure shown %s is words, JSON and a page that needs no network", async (_, code, type) => {
    const events = await run(kernel, `${make}\n${code}`);
    expect(events.map((event) => event.type)).toEqual([type, "done"]);
    const { data } = events[0] as Extract<ExecutionEvent, { type: "display" }>;
    expect(data["text/plain"]).toBe(summary);
    expect(data["application/vnd.plotly.v1+json"]).toMatchObject({ data: [{ type: "scatter" }, { type: "bar" }] });
    const page = String(data["text/html"]);
    expect(page.length).toBeGreaterThan(3_000_000);
    expect(page).not.toMatch(/<script[^>]+src=/);
    expect(page).toContain("Plotly.newPlot(");
  });

  test("a picture is refused in a sentence, since there is no browser", async () => {
    const events = await run(kernel, "fig.to_image()");
    expect(failure(events)?.message).toMatch(/kaleido/i);
  });
});

const distribution = readDistribution(findSources(), undefined);
const isReachable = await fetch(`${distribution.url}pyodide-lock.json`, { signal: AbortSignal.timeout(5_000) })
  .then((response) => response.ok)
  .catch(() => false);

/** The wheels of these packages and of their dependencies, as Pyodide's lock names them. */
async function fetchWheels(names: string[], folder: string): Promise<void> {
  const packages = distribution.packages as Record<string, { file_name: string; depends?: string[] }>;
  const wanted = new Set(names);
  for (const name of wanted) {
    const { file_name, depends = [] } = packages[name] ?? { file_name: "" };
    for (const other of depends) wanted.add(other);
    const response = await fetch(distribution.url + file_name);
    writeFileSync(join(folder, file_name), Buffer.from(await response.arrayBuffer()));
  }
}

// Only Pyodide's distribution has these two for WebAssembly, and not every network can reach it, including CI's.
const title = `matplotlib and pandas themselves${isReachable ? "" : " (skipped: Pyodide's distribution is not reachable)"}`;
describe.skipIf(!isReachable)(title, () => {
  let kernel: Kernel;
  beforeAll(async () => {
    kernel = await startWith((workspaceDir) => fetchWheels(["matplotlib", "pandas"], workspaceDir));
    expect(failure(await run(kernel, "import matplotlib.pyplot as plt, pandas as pd"))).toBeUndefined();
  });

  test("a plot is a picture with something on it, where show() stands and at the end", async () => {
    const events = await run(
      kernel,
      "plt.plot([1, 3, 2])\nplt.show()\nprint('then')\nplt.bar(['a', 'b'], [1, 2])\nNone",
    );
    expect(events.map((event) => event.type)).toEqual(["display", "stream", "display", "done"]);
    for (const { width, height, data } of pictures(events)) {
      expect([width > 300, height > 300]).toEqual([true, true]);
      expect(new Set(data).size).toBeGreaterThan(10);
    }
    expect(text(events, "stderr")).toBe("");
  });

  test("a figure as the last expression is shown once", async () => {
    const events = await run(kernel, "fig, ax = plt.subplots()\nax.plot([1, 2])\nfig");
    expect(events.map((event) => event.type)).toEqual(["result", "done"]);
    expect(pictures(events)).toHaveLength(1);
  });

  test("a figure that cannot be drawn, pause() and Agg by name", async () => {
    const events = await run(kernel, "plt.title('$\\\\frac{$')\nNone");
    expect(text(events, "stderr")).toMatch(/^Figure 1 could not be drawn: ValueError/);
    const other = await run(
      kernel,
      "plt.plot([1])\nplt.pause(0)\nplt.switch_backend('agg')\nplt.plot([1])\nplt.show()",
    );
    expect(pictures(other)).toHaveLength(1);
  });

  test("a table is short text, and HTML", async () => {
    const events = await run(kernel, "pd.DataFrame({'a': range(1000), 'b': range(1000)})");
    expect(String(result(events)).split("\n").length).toBeLessThan(70);
    expect(result(events)).toContain("[1000 rows x 2 columns]");
    expect(events[0]).toMatchObject({ data: { "text/html": expect.stringContaining("<table") } });
  });
});
