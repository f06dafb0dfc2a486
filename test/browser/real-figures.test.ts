import { afterAll, beforeAll, expect, test } from "vitest";
import type { Output } from "../../src/execution.ts";
import { renderCell } from "../render/support.ts";
import { describeWith, requirement } from "../support/requirements.ts";
import { look, openBrowser, runCells } from "./support.ts";

const setUp = `
import altair as alt, numpy as np, pandas as pd, plotly.express as px, plotly.graph_objects as go, sympy
from bokeh.io import output_notebook
from bokeh.plotting import figure, show
from PIL import Image
table = pd.DataFrame({"name": list("xyz"), "value": [1.0, 3.0, 2.0]})
`;
const cells = {
  bar: "fig = px.bar(table, x='name', y='value', title='Values')\nfig.show()",
  surface: "go.Figure(go.Surface(z=np.outer(np.sin(np.linspace(0, 3, 20)), np.cos(np.linspace(0, 3, 20)))))",
  altair: "chart = alt.Chart(table, title='Values').mark_bar().encode(x='name', y='mean(value)')\nchart",
  altairShown: "chart.show()\nNone",
  altairWrong: "alt.Chart(table).mark_bar().encode(x='name', y='value:Z')",
  bokeh:
    "output_notebook()\nplot = figure(title='Lines', width=400, height=300, x_axis_label='time')\n" +
    "plot.line([1, 2, 3], [3, 1, 2], color='#ff0000', line_width=8)\nshow(plot)",
  bokehResult: "plot",
  styler: "table.style.hide().set_properties(**{'background-color': '#00ff00'})",
  frame: "table",
  image: "Image.new('RGB', (30, 20), '#0000ff')",
  photo: "Image.fromarray((np.random.rand(1400, 1400, 3) * 255).astype('uint8'))",
  formula: "sympy.Integral(sympy.exp(-sympy.Symbol('x') ** 2), sympy.Symbol('x'))",
  writeImage:
    "try:\n    fig.write_image('bars.png')\nexcept Exception as error:\n    print(type(error).__name__, error)",
  writeWrong: "fig.write_image('bars')",
};

describeWith("managedPython", "figures of real libraries", (python) => {
  let shown: Record<keyof typeof cells, Output[]>;
  beforeAll(async () => {
    // Code has no browser that it could start for `write_image`.
    const told = await runCells(python, [setUp, ...Object.values(cells)], {
      BROWSER_PATH: "/nowhere/chrome",
      PATH: "",
    });
    shown = Object.fromEntries(Object.keys(cells).map((name, at) => [name, told[at + 1]])) as typeof shown;
  });
  const { browser } = openBrowser();
  afterAll(() => browser.dispose());
  const render = (name: keyof typeof cells, { drawn = true } = {}) => renderCell(shown[name], drawn ? { browser } : {});
  const pictureOf = ({ images }: Awaited<ReturnType<typeof render>>) => {
    expect(images).toHaveLength(1);
    return look(Buffer.from(images[0]?.data ?? "", "base64"));
  };
  const types = ({ links }: Awaited<ReturnType<typeof render>>) => links.map(({ mimeType }) => mimeType);
  const hasBrowser = requirement("chromium").ok;

  test.runIf(hasBrowser)("plotly", async () => {
    const bar = await render("bar");
    expect(pictureOf(bar)).toMatchObject({ width: 700, height: 500 });
    expect(pictureOf(bar).share("#636efa")).toBeGreaterThan(0.1);
    expect(bar.text).toMatch(/^plotly figure "Values": 1 trace; axes: x "name", y "value"\n\[session/);
    expect(types(bar)).toEqual(["application/vnd.plotly.v1+json", "text/html"]);
    expect(pictureOf(await render("surface")).colours).toBeGreaterThan(500);
  });

  test("plotly without a browser", async () => {
    const { text, images, links } = await render("bar", { drawn: false });
    expect(text).toContain("- bar: 3 points, x x, y, z, y 1 to 3");
    expect(images).toEqual([]);
    expect(links).toHaveLength(2);
  });

  test("altair needs no browser", async () => {
    for (const name of ["altair", "altairShown"] as const) {
      const chart = await render(name, { drawn: false });
      expect(pictureOf(chart).share("#4c78a8")).toBeGreaterThan(0.1);
      expect(types(chart)).toEqual(["application/vnd.vegalite.v6+json"]);
      expect(chart.text).toMatch(/^\[session/);
    }
    const { text, images } = await render("altairWrong", { drawn: false });
    expect(text).toContain('The altair chart could not be shown: ValueError: "Z" is not one of the valid');
    expect(images).toEqual([]);
  });

  test.runIf(hasBrowser)("bokeh, when shown and as a result", async () => {
    for (const name of ["bokeh", "bokehResult"] as const) {
      const plot = await render(name);
      const { width, height, share } = pictureOf(plot);
      expect({ width, height }).toEqual({ width: expect.closeTo(410, -2), height: expect.closeTo(310, -2) });
      expect(share("#ff0000")).toBeGreaterThan(0.01);
      expect(plot.text).toMatch(/^bokeh plot "Lines": Line; axes: time\n\[session/);
      expect(types(plot)).toEqual(["text/html"]);
    }
  });

  test("bokeh without a browser", async () => {
    const plot = await render("bokeh", { drawn: false });
    expect(plot.text).toMatch(/^bokeh plot "Lines": Line; axes: time\n\[session/);
    expect(types(plot)).toEqual(["text/html"]);
  });

  test.runIf(hasBrowser)("a pandas table is text; one with colours is a picture", async () => {
    const frame = await render("frame");
    expect(frame.text).toMatch(/^ {2}name {2}value\n0 /);
    expect(frame.images).toEqual([]);
    const styled = await render("styler");
    expect(pictureOf(styled).share("#00ff00")).toBeGreaterThan(0.2);
    expect(types(styled)).toEqual(["text/html"]);
  });

  test("images of PIL are one picture each", async () => {
    expect(Object.keys(bundle("image"))).toEqual(["image/png", "text/plain"]);
    expect(pictureOf(await render("image")).share("#0000ff")).toBe(1);
    expect(Object.keys(bundle("photo"))).toEqual(["image/jpeg", "text/plain"]);
  });

  test("a formula is code, and as it is written", async () => {
    expect((await render("formula")).text).toMatch(/^Integral\(exp\(-x\*\*2\), x\)\n\$\\displaystyle \\int e/);
  });

  test("an image that cannot be written is explained; a wrong argument stays one", async () => {
    expect((await render("writeImage")).text).toMatch(
      /RuntimeError Writing a plotly figure as an image needs .*write_html/,
    );
    expect(shown.writeWrong).toMatchObject([{ type: "error", name: "ValueError" }]);
  });

  function bundle(name: keyof typeof cells): Record<string, unknown> {
    const [output] = shown[name];
    return output?.type === "result" ? output.data : {};
  }
});
