/** Pictures, figures, tables and long texts, across the replaced systems, with the native tools. */

import { expect, test } from "vitest";
import { drawn } from "../support/drawn.ts";
import { startStdio } from "../support/program.ts";
import { describeWith, requirement } from "../support/requirements.ts";
import { links, newSession, onLocal, pictures, read, shared, sizeOfPng } from "./x-support.ts";

describeWith("localKernels", "rich output", () => {
  const world = shared(async (atEnd) => {
    const client = await startStdio({ args: onLocal, atEnd });
    const setUp = "import io, matplotlib.pyplot as plt\nfrom PIL import Image\nfrom IPython import display as d";
    return { client, session_id: await newSession(client, setUp) };
  });
  const run = (code: string) => world().client.run(code, { session_id: world().session_id });

  test("X-22 every way to show a picture shows it exactly once", async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
    const jpeg = "buffer = io.BytesIO(); Image.new('RGB', (8, 8), 'red').save(buffer, 'JPEG')";
    const ways = {
      "matplotlib, shown": "plt.plot([1, 2]); plt.show()",
      "a figure as last line": "fig, ax = plt.subplots()\n_ = ax.plot([1, 2])\nfig",
      "a figure left open": "plt.figure(); plt.plot([2, 1]);",
      seaborn: "import seaborn as sns\nsns.lineplot(x=[1, 2], y=[2, 1]);",
      PIL: "Image.new('RGB', (30, 20), 'blue')",
      SVG: `d.SVG('${svg}')`,
      JPEG: `${jpeg}\nd.Image(buffer.getvalue(), format='jpeg')`,
    };
    const shown: Record<string, number> = {};
    for (const [way, code] of Object.entries(ways)) {
      const reply = await run(code);
      expect(reply.structured).toMatchObject({ status: "ok" });
      expect(reply.text).not.toMatch(/iVBOR|\/9j\//);
      shown[way] = pictures(reply).length;
    }
    expect(shown).toEqual(Object.fromEntries(Object.keys(ways).map((way) => [way, 1])));
  });

  test("X-23 a Plotly figure is one picture, or HTML where nothing can draw it, shown or as last line", async () => {
    const figure = "import plotly.express as px\nfig = px.line(x=[1, 2], y=[3, 4])\n";
    for (const ending of ["fig.show()", "fig"]) {
      const reply = await drawn(
        () => run(figure + ending),
        (reply) => pictures(reply).length > 0,
      );
      expect(pictures(reply)).toHaveLength(requirement("chromium").ok ? 1 : 0);
      expect(links(reply).filter(({ mimeType }) => mimeType === "text/html")).toHaveLength(1);
    }
  });

  test("X-24 a table is plain text in the result, and its HTML can be had", async () => {
    const reply = await run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})");
    expect(reply.structured?.result).toMatch(/a\s+b\n0\s+1\s+x\n1\s+2\s+y/);
    expect(reply.text).not.toContain("<table");
    const html = links(reply).find(({ mimeType }) => mimeType === "text/html");
    const page = await read(world().client, String(html?.uri));
    expect(page).toMatchObject({ mimeType: "text/html", text: expect.stringContaining("<table") });
  });

  test("X-25 pictures shown in one moment, and twenty in one cell, are all there, within the limit of a reply", async () => {
    const { client } = world();
    const show = (count: number) => `for i in range(${count}): display(Image.new('RGB', (400, 300), (10 * i, 0, 0)))`;
    for (const count of [2, 20]) {
      const reply = await run(show(count));
      const linked = await Promise.all(links(reply).map(({ uri }) => read(client, String(uri))));
      // A reply shows ten, and links the others.
      const seen = [...pictures(reply).map((bytes) => bytes.toString("base64")), ...linked.map(({ blob }) => blob)];
      expect(pictures(reply)).toHaveLength(Math.min(count, 10));
      expect(new Set(seen).size).toBe(count);
      expect(JSON.stringify(reply.content).length).toBeLessThan(10_000_000);
    }
  });

  test("X-26 a plot of 4000 × 4000 is shown smaller, and whole behind a link", async () => {
    const figure = "plt.figure(figsize=(40, 40), dpi=100); plt.plot([1, 2]);";
    const reply = await run(`${figure} plt.show()`);
    const savedFigure = async () => {
      const saving = "plt.savefig('whole.png', bbox_inches='tight'); plt.close()";
      const saved = await run(`${figure} ${saving}`);
      return read(world().client, String(links(saved)[0]?.uri));
    };
    const [shown] = pictures(reply);
    expect(Math.max(...sizeOfPng(shown as Buffer))).toBeLessThan(4_000);
    const [link] = links(reply);
    const whole = await read(world().client, String(link?.uri));
    const [width, height] = sizeOfPng(Buffer.from(whole.blob ?? "", "base64"));
    // Every pixel that was drawn: 4000, without the empty margins that notebooks cut off.
    expect(Math.min(width, height)).toBeGreaterThan(3_000);
    expect([width, height]).toEqual(sizeOfPng(Buffer.from((await savedFigure()).blob ?? "", "base64")));
  });

  test("X-28 10 MB of text are shortened with a marker, whole behind a link, and without escape codes", async () => {
    const code = "for i in range(100_000): print(f'\\x1b[31m{i:099d}\\x1b[0m')";
    const reply = await run(code);
    expect(reply.structured).toMatchObject({ status: "ok" });
    expect(reply.text.length).toBeLessThan(30_000);
    expect(reply.text).toMatch(/^0{99}\n/);
    expect(reply.text).toContain(String(99_999));
    expect(reply.text).toMatch(/… .*characters/);
    expect(reply.text).not.toContain("\u001b");
    const [link] = links(reply);
    const path = String(link?.uri).split(`${world().session_id}/`)[1] ?? "";
    const args = {
      session_id: world().session_id,
      path: decodeURIComponent(path),
      offset_line: 54_322,
      limit_lines: 1,
    };
    const line = await world().client.call("read_file", args);
    expect(line.text).toContain(`${"0".repeat(94)}54321`);
    expect(line.text).not.toContain("\u001b");
  });
});
