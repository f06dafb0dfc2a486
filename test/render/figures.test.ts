import { expect, test } from "vitest";
import type { Browser } from "../../src/browser/browser.ts";
import type { Figure } from "../../src/browser/drawer.ts";
import { renderExact } from "../../src/render/exact.ts";
import { openMemoryStore } from "../support/memory-store.ts";
import { png, renderCell, shown, stdout } from "./support.ts";

/** Draws the same picture of everything, or what `draw` says. */
function standIn(draw: (figure: Figure) => { bytes: Buffer; note?: string } | undefined = () => ({ bytes: picture })) {
  const asked: Figure[] = [];
  let open = 0;
  const browser = {
    openDrawer: () => {
      open += 1;
      return {
        draw: async (figure: Figure) => {
          asked.push(figure);
          return draw(figure);
        },
        close: () => {
          open -= 1;
        },
      };
    },
  } as unknown as Browser;
  return { browser, asked, isClosed: () => open === 0 };
}

const picture = Buffer.from(png(60, 40), "base64");
const blank = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAEAQAAAACBiqPTAAAADklEQVR4nGP4/58BGQEAL90D/c0jnVAAAAAASUVORK5CYII=",
  "base64",
);

const summary = 'plotly figure "Bars": 1 trace\n- bar: 2 points\n(No HTML page: the limit of a cell is 3.)';
const figure = { data: [{ type: "bar", y: [1, 2] }], layout: {} };
const plotly = { "text/plain": summary, "application/vnd.plotly.v1+json": figure, "text/html": "<html>page</html>" };

test("a plotly figure is one picture with a line of words; its JSON and its page are linked", async () => {
  const { browser, asked, isClosed } = standIn();
  const { text, images, links, shape } = await renderCell([stdout("before\n"), shown(plotly)], { browser });
  expect(asked).toEqual([{ type: "plotly", figure }]);
  expect(isClosed()).toBe(true);
  expect(shape).toEqual(["text", "image", "resource_link", "resource_link", "text"]);
  expect(Buffer.from(images[0]?.data ?? "", "base64").equals(picture)).toBe(true);
  expect(links.map(({ mimeType }) => mimeType)).toEqual(["application/vnd.plotly.v1+json", "text/html"]);
  expect(text).toMatch(
    /^before\nplotly figure "Bars": 1 trace\n\(No HTML page: the limit of a cell is 3\.\)\n\[session/,
  );
});

test("a reply without figures leaves the browser alone, so that it ends when it is idle", async () => {
  const untouched = { openDrawer: () => expect.unreachable() } as unknown as Browser;
  await renderCell([stdout("text\n"), shown({ "image/png": png(60, 40) })], { browser: untouched });
  const bundles = [{ "image/png": png(60, 40) }];
  const blocks = [{ type: "shown" as const, bundles }];
  const { content } = await renderExact({ type: "exact", blocks }, { store: openMemoryStore(), browser: untouched });
  expect(content).toMatchObject([{ type: "image" }]);
});

test("a figure that cannot be drawn, or is blank, is described in text", async () => {
  for (const draw of [() => undefined, () => ({ bytes: blank }), () => ({ bytes: Buffer.from("none") })]) {
    const { text, images, links } = await renderCell([shown(plotly)], { browser: standIn(draw).browser });
    expect(text).toContain("- bar: 2 points");
    expect(images).toEqual([]);
    expect(links).toHaveLength(2);
  }
});

test.each([
  [
    "a page that draws",
    { "text/html": "<!DOCTYPE html>\n<html><script>x</script></html>", "text/plain": "bokeh plot" },
  ],
  ["a table without a text", { "text/html": "<style>a{}</style><table></table>", "text/plain": "<Styler at 0x7f>" }],
  ["a drawing in HTML", { "text/html": "<div><svg></svg></div>" }],
])("%s is drawn", async (_, data) => {
  const { browser, asked } = standIn();
  const { images, links } = await renderCell([shown(data)], { browser });
  expect(asked).toEqual([{ type: "html", html: data["text/html"] }]);
  expect(images).toHaveLength(1);
  expect(links).toMatchObject([{ mimeType: "text/html" }]);
});

test.each([
  ["a table that is text as well", { "text/html": "<table class=dataframe></table>", "text/plain": "   a\n0  1" }],
  ["words in HTML", { "text/html": "<p>Hello <b>you</b></p>", "text/plain": "<IPython.core.display.HTML object>" }],
  ["what is a picture already", { "image/png": png(20, 20), "text/html": "<table></table>" }],
  ["what has a picture of its own making", { ...plotly, "image/png": png(20, 20) }],
])("%s is not drawn", async (_, data) => {
  const { browser, asked } = standIn();
  await renderCell([shown(data)], { browser });
  expect(asked).toEqual([]);
});

test("that only the beginning of a page is drawn is said", async () => {
  const { browser } = standIn(() => ({ bytes: picture, note: "the beginning of a page of 100 × 9000" }));
  const { text } = await renderCell([shown({ "text/html": "<table></table>" })], { browser });
  expect(text).toMatch(/^\[picture: the beginning of a page of 100 × 9000\]\n\[session/);
});

test("of many figures the first and the last are drawn, the others are described", async () => {
  const { browser, asked } = standIn();
  const outputs = Array.from({ length: 14 }, (_, at) =>
    shown({ ...plotly, "text/plain": `figure ${at}\n- trace ${at}` }),
  );
  const { text, images } = await renderCell(outputs, { browser });
  expect(asked).toHaveLength(10);
  expect(images).toHaveLength(10);
  expect([...text.matchAll(/- trace (\d+)/g)].map((match) => Number(match[1]))).toEqual([5, 6, 7, 8]);
});

test("sound and films are files", async () => {
  const bytes = Buffer.from("RIFF sound");
  const player = (type: string, tag: string) =>
    `\n<${tag} controls="controls">\n<source src="data:${type};base64,${bytes.toString("base64")}" type="${type}" />\nNo player.</${tag}>`;
  const { text, links, store } = await renderCell([
    shown({ "text/html": player("audio/wav", "audio"), "text/plain": "<IPython.lib.display.Audio object>" }),
    shown({ "text/html": player("video/mp4", "video") }),
    shown({ "video/webm": bytes.toString("base64"), "text/plain": "<a film>" }),
  ]);
  expect(links.map(({ mimeType }) => mimeType)).toEqual(["audio/wav", "video/mp4", "video/webm"]);
  expect(Buffer.from((await store.getBlob(links[0]?.uri ?? ""))?.bytes ?? []).toString()).toBe("RIFF sound");
  expect(text).not.toContain("No player");
});

test("a picture in two formats is one picture, and not linked", async () => {
  const { images, links } = await renderCell([shown({ "image/png": png(20, 20), "image/jpeg": "AAAA" })]);
  expect(images).toHaveLength(1);
  expect(links).toEqual([]);
});
