import { cpSync } from "node:fs";
import { join } from "node:path";
import { decode } from "fast-png";
import { beforeAll, describe, expect, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { Kernel } from "../../../src/kernels/kernel.ts";
import { failure, result, run, runUntilReady, text } from "../../contracts/kernel.ts";
import { wasmKernels } from "../wasm/wasm-kernels.ts";

/** What the prelude does with plotting libraries, tested with stand-ins. */
const kernels = wasmKernels();
let kernel: Kernel;
let workspaceDir: string;

beforeAll(async () => {
  ({ kernel, workspaceDir } = await kernels.start());
  cpSync(join(import.meta.dirname, "fixtures"), workspaceDir, { recursive: true });
});

/** A picture of the stand-in: `#1:2` is figure 1 with two lines on it. */
function picture(data: Record<string, unknown>): string | undefined {
  if (typeof data["image/png"] !== "string") return undefined;
  const [lines, number] = decode(Buffer.from(data["image/png"], "base64")).data;
  return `#${number}:${lines}`;
}

/** Everything that a cell showed, in order, abbreviated. */
function story(events: ExecutionEvent[]): string[] {
  return events.flatMap((event) => {
    if (event.type === "stream") return [`${event.name}: ${event.text.trimEnd()}`];
    if (event.type === "display" || event.type === "result") {
      return [`${event.type}: ${picture(event.data) ?? event.data["text/plain"]}`];
    }
    return event.type === "error" ? [`error: ${event.name}`] : [];
  });
}

const told = async (code: string) => story(await run(kernel, code));

describe("plotting libraries", () => {
  test("are not imported by us, and those that are there are watched for no longer", async () => {
    const fresh = (await kernels.start()).kernel;
    const loaded = "[name for name in sys.modules if name.startswith(('matplotlib', 'plotly.', 'pandas', 'numpy'))]";
    expect(result(await run(fresh, `import sys\n${loaded}`))).toBe("[]");
    const finder = "next(finder for finder in sys.meta_path if 'cellwright' in type(finder).__module__)";
    const names = "{'matplotlib.figure', 'plotly.basedatatypes', 'plotly.io._renderers'}";
    const watches = `finder = ${finder}\nbool(${names} & set(sys.modules[type(finder).__module__]._waiting))`;
    expect(result(await run(kernel, `import sys\n${watches}`))).toBe("True");
    await run(kernel, "import matplotlib.pyplot as plt, matplotlib.backends.backend_agg");
    await run(kernel, "import plotly.graph_objects as go, plotly.io, plotly.io._renderers");
    expect(result(await run(kernel, watches))).toBe("False");
    await fresh.dispose();
  });

  test("are modules like any other", async () => {
    const code = "import importlib.util\nspec = importlib.util.find_spec('matplotlib.figure')\n";
    expect(result(await run(kernel, `${code}type(spec.loader).__name__, type(plt.Figure).__name__`))).toBe(
      "('SourceFileLoader', 'type')",
    );
    expect(result(await run(kernel, "import matplotlib.figure as f\nf.__loader__ is f.__spec__.loader"))).toBe("True");
  });

  test("that are broken fail as they would without us, and work once they are mended", async () => {
    const { kernel: other, workspaceDir: folder } = await kernels.start();
    cpSync(join(import.meta.dirname, "fixtures"), folder, { recursive: true });
    const spoil = "source = open('matplotlib/figure.py').read()\nopen('matplotlib/figure.py', 'w').write('1 / 0')";
    await run(other, spoil);
    const broken = failure(await run(other, "import matplotlib.pyplot"));
    expect(broken).toMatchObject({ name: "ZeroDivisionError" });
    expect(broken?.traceback.join("\n")).not.toContain("cellwright");
    await run(other, "open('matplotlib/figure.py', 'w').write(source)");
    expect(story(await run(other, "import matplotlib.pyplot as plt\nplt.plot()"))).toEqual(["display: #1:1"]);
    await other.dispose();
  });

  test("whose insides have changed are imported all the same, and it is said", async () => {
    const { kernel: other, workspaceDir: folder } = await kernels.start();
    cpSync(join(import.meta.dirname, "fixtures"), folder, { recursive: true });
    await run(other, "open('matplotlib/backends/backend_agg.py', 'w').write('')");
    const events = await run(other, "import matplotlib.backends.backend_agg\nprint('imported')");
    expect(text(events)).toBe("imported\n");
    expect(text(events, "stderr")).toMatch(
      /^Plots of matplotlib.backends.backend_agg may not be shown: AttributeError/,
    );
    await other.dispose();
  });
});

describe("matplotlib", () => {
  test("draws with Agg, whatever is asked for by name", async () => {
    expect(result(await run(kernel, "import matplotlib\nmatplotlib.rcParams['backend']"))).toBe("'Agg'");
    expect(await told("matplotlib.use('agg')\nplt.plot()\nplt.show()\nprint('then')")).toEqual([
      "display: #1:1",
      "stdout: then",
    ]);
  });

  test("show() shows in place, in the order of what is printed", async () => {
    const code = "print('a')\nplt.plot()\nplt.show()\nprint('b')\nplt.plot()\nplt.plot()\nplt.show()\nprint('c')";
    expect(await told(code)).toEqual(["stdout: a", "display: #1:1", "stdout: b", "display: #1:2", "stdout: c"]);
  });

  test("every open figure is shown once when the cell ends, by number, and closed", async () => {
    const code =
      "for n in (3, 1, 2):\n    plt.figure(n)\n    for _ in range(n): plt.plot()\nplt.figure(2)\nprint('end')";
    expect(await told(`${code};`)).toEqual(["stdout: end", "display: #1:1", "display: #2:2", "display: #3:3"]);
    expect(await told("print(len(plt.Gcf.figs))")).toEqual(["stdout: 0"]);
  });

  test("a figure as the last expression is the result, and is not shown again", async () => {
    expect(await told("fig = plt.figure()\nplt.plot()\nfig")).toEqual(["result: #1:1"]);
    expect(await told("fig")).toEqual(["result: #1:1"]);
    expect(result(await run(kernel, "fig"))).toBe("<Figure with 1 lines>");
    expect(await told("other = plt.figure()\nplt.plot()\nfig")).toEqual(["result: #1:1", "display: #1:1"]);
  });

  test("a figure shown by display() or its own show() is shown again only if it changed", async () => {
    const make = "fig = plt.figure()\nplt.plot()\n";
    expect(await told(`${make}display(fig)\nprint('b')`)).toEqual(["display: #1:1", "stdout: b"]);
    expect(await told(`${make}fig.show()\nprint('b')`)).toEqual(["display: #1:1", "stdout: b"]);
    expect(await told(`${make}fig.show()\nplt.plot()\nprint('b')`)).toEqual([
      "display: #1:1",
      "stdout: b",
      "display: #1:2",
    ]);
    expect(await told("fig.show()")).toEqual(["display: #1:2"]);
    const cleared = await run(kernel, `${make}display(fig)\nclear_output()`);
    expect(story(cleared)).toEqual(["display: #1:1", "display: #1:1"]);
  });

  test("savefig() writes a file, and the open figure is shown once", async () => {
    expect(await told("plt.plot()\nplt.savefig('saved.png')")).toEqual(["display: #1:1"]);
    expect(await told("import os\nprint(os.path.getsize('saved.png') > 50)")).toEqual(["stdout: True"]);
    expect(await told("plt.plot()\nplt.savefig('saved.png')\nplt.close()")).toEqual([]);
  });

  test("a figure that cannot be drawn is one sentence, and the others are shown", async () => {
    const events = await run(kernel, "plt.figure(1)\nplt.plot('broken')\nplt.figure(2)\nplt.plot()");
    expect(story(events)).toEqual([
      "stderr: Figure 1 could not be drawn: ValueError: this line cannot be drawn",
      "display: #2:1",
    ]);
    expect(events.at(-1)).toMatchObject({ type: "done", status: "ok" });
    expect(await told("plt.plot('broken')\nplt.show()\nprint('after')")).toEqual([
      "stderr: Figure 1 could not be drawn: ValueError: this line cannot be drawn",
      "stdout: after",
    ]);
    expect(await told("fig = plt.figure()\nplt.plot('broken')\nfig")).toEqual([
      "stderr: Figure 1 could not be drawn: ValueError: this line cannot be drawn",
      "result: <Figure with 1 lines>",
    ]);
  });

  test("a cell that fails shows the figures it made before its error", async () => {
    const events = await run(kernel, "plt.plot()\nprint('a')\n1 / 0");
    expect(story(events)).toEqual(["stdout: a", "display: #1:1", "error: ZeroDivisionError"]);
    expect(await told("plt.plot()\nimport sys\nsys.exit()")).toEqual(["display: #1:1", "error: SystemExit"]);
    expect(await told("1 +")).toEqual(["error: SyntaxError"]);
  });

  test("a cell that is interrupted draws nothing more, and its figures are still in variables", async () => {
    const code = "fig = plt.figure()\nplt.plot()\nprint('ready')\nwhile True: pass";
    const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
    expect(story(events)).toEqual([
      "stdout: ready",
      "stderr: 1 open figure was not drawn: the cell was interrupted. display(fig) shows one that a variable holds.",
      "error: KeyboardInterrupt",
    ]);
    expect(await told("fig")).toEqual(["result: #1:1"]);
  });

  test("a figure that takes for ever to draw can be interrupted", async () => {
    await run(
      kernel,
      "class Slow(plt.Figure):\n    def savefig(self, *a, **b):\n        print('ready')\n        while True: pass",
    );
    const code = "plt.figure()\nplt.plot()\nplt.gcf().__class__ = Slow";
    const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
    expect(story(events)).toEqual(["stdout: ready", "error: KeyboardInterrupt"]);
    expect(await told("print(len(plt.Gcf.figs))")).toEqual(["stdout: 0"]);
  });

  test("pause() and a non-blocking show do not wait; the last state is shown at the end", async () => {
    const code = "for _ in range(3):\n    plt.plot()\n    plt.pause(0)\nplt.show(block=False)\nprint('end')";
    expect(await told(code)).toEqual(["stdout: end", "display: #1:3"]);
  });

  test("an empty figure is no picture", async () => {
    expect(await told("plt.figure()\nprint('a')")).toEqual(["stdout: a"]);
    expect(await told("plt.figure()")).toEqual(["result: <Figure with 0 lines>"]);
  });

  test("a silent cell shows nothing and closes nothing", async () => {
    expect(story(await run(kernel, "plt.plot()", { silent: true }))).toEqual([]);
    expect(await told("print('next')")).toEqual(["stdout: next", "display: #1:1"]);
  });

  test("a top-level await keeps the rules", async () => {
    const code = "import asyncio\nplt.plot()\nawait asyncio.sleep(0)\nplt.show()\nprint('b')\nplt.plot()";
    expect(await told(code)).toEqual(["display: #1:1", "stdout: b", "display: #1:1"]);
  });

  test("a huge figure is drawn with fewer dots", async () => {
    const size = async (options: string, line: string) => {
      const events = await run(kernel, `plt.figure(${options})\nplt.plot('${line}')`);
      const data = events.find((event) => event.type === "display")?.data["image/png"];
      const bytes = Buffer.from(String(data), "base64");
      const { width, height } = decode(bytes);
      return { width, height, bytes: bytes.length };
    };
    expect(await size("figsize=(100, 50), dpi=300", "line")).toMatchObject({ width: 4_096, height: 2_048 });
    const { bytes, width } = await size("figsize=(20, 10)", "noise");
    expect(bytes).toBeLessThanOrEqual(2_000_000);
    expect(width).toBeGreaterThan(800);
  });

  test("fifty open figures are shown, and the rest is counted", async () => {
    const events = await run(kernel, "for n in range(1, 61): plt.figure(n); plt.plot()");
    expect(events.filter((event) => event.type === "display")).toHaveLength(50);
    expect(text(events, "stderr")).toMatch(/^10 open figures were not drawn: 50 are shown at a time\./);
  });
});

describe("plotly", () => {
  const figure = "go.Figure({'type': 'scatter', 'name': 'A', 'x': [1, 2], 'y': [5.5, None]}, title={'text': 'T'})";
  const summary = 'plotly figure "T": 1 trace\n- scatter "A": 2 points, x 1 to 2, y 5.5';

  test.each([
    ["as the last expression", figure, "result"],
    ["by show()", `${figure}.show()`, "display"],
    ["by show() in a browser", `${figure}.show('browser')`, "display"],
    ["by display()", `display(${figure})`, "display"],
  ])("a figure shown %s is one output: words, JSON, and a page with plotly.js in it", async (_, code, type) => {
    const events = await run(kernel, code);
    expect(events).toMatchObject([{ type }, { type: "done", status: "ok" }]);
    const { data } = events[0] as Extract<ExecutionEvent, { type: "display" }>;
    expect(Object.keys(data).sort()).toEqual(["application/vnd.plotly.v1+json", "text/html", "text/plain"]);
    expect(data["text/plain"]).toBe(summary);
    expect(data["application/vnd.plotly.v1+json"]).toMatchObject({ layout: { title: { text: "T" } } });
    expect(data["text/html"]).toContain("/* plotly.js */");
  });

  test("the same figure twice in a cell is not sent twice; a changed one is", async () => {
    const [first, second, third] = await run(kernel, `fig = ${figure}\nfig.show()\nfig.show()\nfig`);
    expect(first).toMatchObject({ type: "display", data: { "text/plain": summary } });
    expect(second).toEqual({ type: "display", data: { "text/plain": 'plotly figure "T", as shown above' } });
    expect(third).toEqual({ type: "result", data: { "text/plain": 'plotly figure "T", as shown above' } });
    expect(await told("fig.show()\nfig.data.append({'type': 'bar'})\nfig")).toEqual([
      `display: ${summary}`,
      `result: ${summary.replace("1 trace", "2 traces")}\n- bar`,
    ]);
  });

  test("a cell makes three pages, and says so when there are more figures", async () => {
    const events = await run(kernel, "for n in range(5): go.Figure(title=f'T{n}').show()");
    const shown = events.flatMap((event) => (event.type === "display" ? [event.data] : []));
    expect(shown.map((data) => "text/html" in data)).toEqual([true, true, true, false, false]);
    expect(shown[4]?.["text/plain"]).toContain(
      "(No HTML page: the limit of a cell is 3. fig.write_html(path) writes one.)",
    );
    expect(shown.every((data) => "application/vnd.plotly.v1+json" in data)).toBe(true);
  });

  test("a figure that is too large is described in text", async () => {
    const [event] = await run(kernel, "go.Figure({'type': 'bar', 'y': list(range(1_000_000))})");
    expect(event).toEqual({
      type: "result",
      data: {
        "text/plain": expect.stringMatching(
          /bar: 1000000 points, y 0 to 999999\n.*too large to show, \d MB: fig.write_html/,
        ),
      },
    });
  });

  test("a figure that cannot be written is a sentence, and the cell goes on", async () => {
    expect(await told("go.Figure({'x': object()}).show()\nprint('after')")).toEqual([
      "stderr: The plotly figure could not be shown: TypeError: Object of type object is not JSON serializable",
      "display: Figure({…})",
      "stdout: after",
    ]);
    expect(await told("go.Figure(title='no page')")).toEqual([
      "stderr: The plotly figure has no page: ValueError: the page cannot be made",
      'result: plotly figure "no page": 0 traces',
    ]);
  });
});

describe("a plotly figure in words", () => {
  const words = async (figure: unknown) => {
    const code =
      "import json\nfrom _cellwright import plotly_summary\nprint(plotly_summary.summary(json.loads(figure)))";
    return text(await run(kernel, code, { variables: { figure: JSON.stringify(figure) } })).trimEnd();
  };
  const packed = (numbers: Float64Array, shape?: string) => ({
    dtype: "f8",
    bdata: Buffer.from(numbers.buffer).toString("base64"),
    ...(shape ? { shape } : {}),
  });

  test("names title, axes and what each trace has", async () => {
    const layout = {
      title: { text: "Big <b>title</b><br>on two lines" },
      xaxis: { title: { text: "year" } },
      yaxis2: { title: "right" },
      scene: { zaxis: { title: { text: "depth" } } },
    };
    const data = [
      {
        type: "scatter",
        mode: "lines+markers",
        name: "days",
        x: ["2024-01-01T00:00:00", "2024-03-01"],
        y: [-1.25, 1e6],
      },
      { type: "bar", x: ["a", "b", "a"], y: [3, 3, 3] },
      { type: "bar", x: ["p", "q", "r", "s", "t"], visible: "legendonly" },
      { type: "heatmap", z: packed(Float64Array.from([1, 2, 3, 4, 5, Number.NaN]), "2, 3") },
      { type: "scatter", y: packed(Float64Array.from([0.5, 0.25])) },
      { type: "sankey", node: { label: ["a", "b", "c"] }, link: { source: [0, 1], target: [1, 2] } },
      { type: "indicator", value: 3 },
    ];
    expect(await words({ data, layout, frames: [{}, {}] })).toBe(
      [
        'plotly figure "Big title on two lines": 7 traces; axes: x "year", y2 "right", z "depth", 2 frames of animation',
        '- scatter (lines+markers) "days": 2 points, x 2024-01-01 to 2024-03-01, y -1.25 to 1e+06',
        "- bar: 3 points, x a, b, y 3",
        "- bar: 5 points, x p, q, r, s … (5 different), hidden",
        "- heatmap: 2 × 3 values, z 1 to 5",
        "- scatter: 2 points, y 0.25 to 0.5",
        "- sankey: 3 nodes, 2 links",
        "- indicator",
      ].join("\n"),
    );
  });

  test("keeps to a thousand characters, and counts the rest", async () => {
    const trace = { type: "scatter", name: "n".repeat(500), x: ["c".repeat(500), "d".repeat(500)], y: [1, 2] };
    const long = await words({
      data: Array.from({ length: 200 }, () => trace),
      layout: { title: { text: "t".repeat(999) } },
    });
    expect(long.length).toBeLessThanOrEqual(1_000);
    expect(long).toMatch(/\n- and 19\d more$/);
    const many = await words({ data: Array.from({ length: 200 }, () => ({})) });
    expect(many.split("\n")).toHaveLength(14);
  });

  test("takes nonsense as it comes", async () => {
    expect(await words({})).toBe("plotly figure: 0 traces");
    expect(await words({ data: 7, layout: [], frames: "x" })).toBe("plotly figure: 0 traces");
    const data = [null, { type: 3, x: { dtype: "?" }, y: [[1], { a: 1 }], z: [[1, "a"], [null]] }, { x: [{}, null] }];
    expect(await words({ data, layout: { title: [1], xaxis: 3 } })).toMatch(/^plotly figure: 3 traces\n/);
  });
});

describe("objects of other libraries", () => {
  test("a table is text and HTML, an SVG is text whatever it is made of", async () => {
    const code = [
      "class Table:",
      "    def __repr__(self): return 'a  b'",
      "    def _repr_html_(self): return '<table>'",
      "    def _repr_svg_(self): return '<svg>é</svg>'.encode()",
      "Table()",
    ].join("\n");
    expect(await run(kernel, code)).toMatchObject([
      { type: "result", data: { "text/plain": "a  b", "text/html": "<table>", "image/svg+xml": "<svg>é</svg>" } },
      { type: "done" },
    ]);
  });
});
