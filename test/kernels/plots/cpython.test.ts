import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { decode } from "fast-png";
import { expect, test } from "vitest";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";

const root = join(import.meta.dirname, "../../..");

type Event = { type: string; name?: string; text?: string; data?: Record<string, string> };

function run(cells: string[]): Event[][] {
  const script = join(import.meta.dirname, "fixtures/cpython_cells.py");
  const { stdout, stderr, status } = spawnSync(
    testPython("managed"),
    [script, join(root, "src/kernels/python/prelude")],
    {
      input: JSON.stringify(["import matplotlib.pyplot as plt, pandas as pd", ...cells]),
      env: {
        PATH: process.env.PATH ?? "",
        HOME: process.env.HOME ?? "",
        PYTHONDONTWRITEBYTECODE: "1",
      },
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  if (status !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as Event[][]).slice(1);
}

/** Summaries, with pictures checked: whether they are blank, and whether they are large. */
function story(events: Event[]): string[] {
  return events.flatMap(({ type, name, text, data }) => {
    if (type === "stream") return text?.trim() ? [`${name}: ${text.trim()}`] : [];
    if (type === "error") return [`error: ${name}`];
    if (!data?.["image/png"]) return [`${type}: ${data?.["text/plain"]}`];
    const { width, height, data: pixels } = decode(Buffer.from(data["image/png"], "base64"));
    if (new Set(pixels).size < 10) return [`${type}: blank`];
    return [`${type}: ${Math.max(width, height) > 700 ? `${width} × ${height}` : "picture"}`];
  });
}

describeWith("managedPython", "matplotlib and pandas in a Python of this machine", () => {
  test("figures are shown as the prelude's own tests say", () => {
    const cells: [code: string, story: unknown[]][] = [
      ["print('a')\nplt.plot([1, 2])\nplt.show()\nprint('b')", ["stdout: a", "display: picture", "stdout: b"]],
      ["fig, ax = plt.subplots()\nax.plot([1, 2])\nfig", ["result: picture"]],
      ["fig.show()", ["display: picture"]],
      [
        "plt.figure(1).text(0, 0, 'a')\nplt.figure(2)\nplt.plot([1])\nplt.figure(3)\nNone",
        ["display: picture", "display: picture"],
      ],
      [
        "import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1])\nplt.show()\nprint('b')",
        ["display: picture", "stdout: b"],
      ],
      [
        "plt.ion()\nplt.plot([1])\nplt.pause(0)\nplt.pause(0.01)\nplt.ioff()\nprint('b')",
        ["stdout: b", "display: picture"],
      ],
      [
        "fig = plt.figure()\nplt.title('$\\\\frac{$')\nfig",
        [
          expect.stringMatching(/^stderr: Figure 1 could not be drawn: ValueError/),
          "result: <Figure size 640x480 with 1 Axes>",
        ],
      ],
      ["plt.plot([1])\n1 / 0", ["display: picture", "error: ZeroDivisionError"]],
      ["plt.plot([1])\ndisplay(plt.gcf())\nNone", ["display: picture"]],
      ["plt.plot([1])\nplt.text(1e3, 0, 'far away')\nNone", ["display: picture"]],
      [
        "plt.figure(figsize=(100, 50), dpi=300)\nplt.plot([1])\nNone",
        [expect.stringMatching(/^display: (3\d\d\d|40\d\d) × [12]\d\d\d$/)],
      ],
      ["plt.figure(layout='constrained')\nplt.plot([1])\nNone", ["display: picture"]],
      ["plt.ginput(1, timeout=0)\nplt.close('all')", []],
    ];
    const told = run(cells.map(([code]) => code)).map(story);
    for (const [index, [code, expected]] of cells.entries()) expect(told[index], code).toEqual(expected);
  });

  test("noise is drawn until it fits", () => {
    const [events] = run([
      "import numpy as np\nplt.figure(figsize=(15, 15))\nplt.imshow(np.random.rand(1200, 1200))\nNone",
    ]);
    expect(Buffer.from(events?.[0]?.data?.["image/png"] ?? "", "base64").length).toBeLessThanOrEqual(2_000_000);
    expect(story(events ?? [])).toEqual([expect.stringMatching(/^display: 1?\d\d\d × 1?\d\d\d$/)]);
  });

  test("a table is short text, and HTML; its plot is a picture", () => {
    const [table, plot] = run(["df = pd.DataFrame({'a': range(1000), 'b': range(1000)})\ndf", "df.plot()\nNone"]);
    expect(table?.[0]).toMatchObject({ type: "result", data: { "text/html": expect.stringContaining("<table") } });
    expect(table?.[0]?.data?.["text/plain"]).toContain("[1000 rows x 2 columns]");
    expect(table?.[0]?.data?.["text/plain"]?.split("\n").length).toBeLessThan(70);
    expect(story(plot ?? [])).toEqual(["display: picture"]);
  });
});
