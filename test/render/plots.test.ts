import { expect, test } from "vitest";
import { renderCell, shown } from "./support.ts";

test("a plotly figure is its summary; its JSON and its page, however large, are linked", async () => {
  const page = `<html>${"x".repeat(5_000_000)}</html>`;
  const figure = { data: [{ type: "bar", y: [1, 2] }], layout: {} };
  const { text, links, images, result, store } = await renderCell([
    shown({ "text/plain": "plotly figure: 1 trace", "application/vnd.plotly.v1+json": figure, "text/html": page }),
  ]);
  expect(text).toMatch(/^plotly figure: 1 trace\n\[session/);
  expect(images).toEqual([]);
  expect(links).toMatchObject([
    { mimeType: "application/vnd.plotly.v1+json", name: expect.stringMatching(/\.json$/) },
    { mimeType: "text/html", name: expect.stringMatching(/\.html$/), size: page.length },
  ]);
  expect(JSON.parse(Buffer.from((await store.getBlob(links[0]?.uri ?? ""))?.bytes ?? []).toString())).toEqual(figure);
  expect((await store.getBlob(links[1]?.uri ?? ""))?.bytes.length).toBe(page.length);
  expect(JSON.stringify(result).length).toBeLessThan(2_000);
});

test("a table is its text, with the HTML linked", async () => {
  const { text, links } = await renderCell([
    shown({ "text/plain": "   a  b\n0  1  2", "text/html": "<table><tr><td>1</td></tr></table>" }),
  ]);
  expect(text).toMatch(/^ {3}a {2}b\n0 {2}1 {2}2\n\[session/);
  expect(links).toMatchObject([{ mimeType: "text/html" }]);
});
