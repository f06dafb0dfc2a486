import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { decode } from "fast-png";
import { describe, expect, onTestFinished, test } from "vitest";
import { withMemoryLimit } from "../../src/render/pictures/svg-engine.ts";
import { png, renderCell, shown } from "./support.ts";

const svg = (inside: string, attributes = 'width="600" height="400"') =>
  `<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>${inside}</svg>`;
const square = '<rect x="60" y="40" width="60" height="40" fill="red"/>';

/** The picture that a model gets of a page. */
async function drawn(page: unknown) {
  const reply = await renderCell([shown({ "image/svg+xml": page, "text/plain": "<Page at 0x1>" })]);
  const image = decode(Buffer.from(reply.images[0]?.data ?? "", "base64"));
  const pixel = (x: number, y: number) => [...image.data.subarray((y * image.width + x) * image.channels).slice(0, 3)];
  const dark = () => {
    let count = 0;
    for (let at = 0; at < image.data.length; at += image.channels) if ((image.data[at] ?? 255) < 128) count += 1;
    return count;
  };
  return { ...reply, image, pixel, dark };
}

describe("an SVG page in a reply", () => {
  test("is drawn on white for the model, and linked as it is", async () => {
    const page = svg(square);
    const { pixel, image, images, links, text, shape, store } = await drawn(page);
    expect(shape).toEqual(["image", "resource_link", "text"]);
    expect(images[0]?.mimeType).toBe("image/png");
    expect([image.width, image.height]).toEqual([600, 400]);
    expect(pixel(90, 60)).toEqual([255, 0, 0]);
    expect(pixel(300, 200)).toEqual([255, 255, 255]);
    expect(links[0]).toMatchObject({ mimeType: "image/svg+xml", name: expect.stringMatching(/\.svg$/) });
    expect(Buffer.from((await store.getBlob(links[0]?.uri ?? ""))?.bytes ?? []).toString()).toBe(page);
    expect(text).not.toContain("picture");
  });

  test.each(["Helvetica", "Times New Roman, serif", "monospace", "no such font"])(
    "has its text, in %s",
    async (font) => {
      const { dark, pixel } = await drawn(
        svg(`<text x="50" y="200" font-family="${font}" font-size="40">Hello, α ≤ β</text>`),
      );
      expect(dark()).toBeGreaterThan(1_000);
      expect(pixel(300, 350)).toEqual([255, 255, 255]);
    },
  );

  test("has bold text that is bolder", async () => {
    const text = (weight: string) => svg(`<text x="50" y="200" font-size="40" font-weight="${weight}">Hello</text>`);
    expect((await drawn(text("bold"))).dark()).toBeGreaterThan((await drawn(text("normal"))).dark() * 1.2);
  });

  test("is drawn larger when it is small, smaller when it is large, and by its view box when it has no size", async () => {
    const size = async (attributes: string) => {
      const { image } = await drawn(svg(square, attributes));
      return [image.width, image.height];
    };
    expect(await size('width="200" height="100"')).toEqual([512, 256]);
    expect(await size('width="20" height="20"')).toEqual([80, 80]);
    expect(await size('width="1000" height="4000"')).toEqual([392, 1_568]);
    expect(await size('viewBox="0 0 300 300"')).toEqual([512, 512]);
    expect(await size('width="1e9" height="1e9"')).toEqual([1_568, 1_568]);
  });

  test("may lack its namespaces, have a prologue, and come as lines", async () => {
    for (const page of [
      `<svg width="600" height="400">${square}</svg>`,
      `<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/a.dtd">\n${svg(square)}`,
      svg(`<defs><g id="a">${square}</g></defs><use xlink:href="#a"/>`),
      [`<svg width="600" height="400">\n`, square, "</svg>"],
    ]) {
      expect((await drawn(page)).pixel(90, 60)).toEqual([255, 0, 0]);
    }
  });

  test("beside a PNG is only linked", async () => {
    const { images, links } = await renderCell([shown({ "image/svg+xml": svg(square), "image/png": png(20, 20) })]);
    expect(images.map(({ data }) => data)).toEqual([png(20, 20)]);
    expect(links).toMatchObject([{ mimeType: "image/svg+xml" }]);
  });

  test.each([
    ["that is cut off", svg(square).slice(0, 80)],
    ["that is something else", "this is no page"],
    ["that has no size", svg(square, 'width="0" height="0"')],
    ["that is far too thin", svg(square, 'width="100000" height="1"')],
    ["with more than four megabytes", svg(`<path d="${"M0 0L9 9".repeat(600_000)}"/>`)],
    ["of entities that multiply", multiplied()],
    ["of references that multiply", svg(references())],
    ["with far too many levels", svg("<g>".repeat(50_000) + "</g>".repeat(50_000))],
  ])("%s is linked with a note", async (_, page) => {
    const { images, links, text } = await renderCell([shown({ "image/svg+xml": page, "text/plain": "Page(1)" })]);
    expect(images).toEqual([]);
    expect(links).toMatchObject([{ mimeType: "image/svg+xml" }]);
    expect(text).toMatch(
      /^Page\(1\)\n\[picture: image\/svg\+xml, .* (could not be drawn|too large to show); it is .*\.svg\]/,
    );
  });

  test("reads nothing from outside of itself", async () => {
    const asked: unknown[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url);
      response.end(Buffer.from(png(10, 10), "base64"));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const file = new URL("../../docs/picture.png", import.meta.url).pathname;
    const image = (href: string) => `<image href="${href}" x="200" y="100" width="200" height="200"/>`;
    const css = `<style>@import url("${address}/a.css"); @font-face { font-family: a; src: url("${address}/a.ttf") }</style>`;
    const page = svg(css + square + image(`${address}/a.png`) + image(file) + image(`file://${file}`));
    const { pixel, dark } = await drawn(page);
    expect(pixel(90, 60)).toEqual([255, 0, 0]);
    expect(pixel(300, 200)).toEqual([255, 255, 255]);
    expect(dark()).toBe(0);
    expect(asked).toEqual([]);
  });

  test("has pictures that are inside of it", async () => {
    const image = `<image href="data:image/png;base64,${png(40, 40)}" x="200" y="100" width="200" height="200"/>`;
    expect((await drawn(svg(image))).dark()).toBeGreaterThan(500);
  });

  test("one of too many is linked without being drawn", async () => {
    const pages = Array.from({ length: 12 }, (_, index) =>
      shown({ "image/svg+xml": svg(`${square}<!-- ${index} -->`) }),
    );
    const { images, links, text } = await renderCell(pages);
    expect(images).toHaveLength(10);
    expect(links).toHaveLength(12);
    expect(text.match(/one of too many to show/g)).toHaveLength(2);
  });
});

test("a program's memory is limited by one number in it, and a program without memory is refused", () => {
  const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
  const other = [1, 4, 1, 0x60, 0, 0];
  expect([...withMemoryLimit(Uint8Array.from([...header, ...other, 5, 3, 1, 0, 23, ...other]), 4_096)]).toEqual([
    ...[...header, ...other, 5, 5, 1, 1, 23, 0x80, 0x20],
    ...other,
  ]);
  expect(() => withMemoryLimit(Uint8Array.from([...header, ...other]), 4_096)).toThrow("no memory");
});

function multiplied(): string {
  const names = [..."abcdefghij"];
  const entities = names.map((name, index) => {
    const content = index === 0 ? "0123456789" : `&${names[index - 1]};`.repeat(10);
    return `<!ENTITY ${name} "${content}">`;
  });
  return `<!DOCTYPE svg [${entities.join("")}]>${svg("<text>&j;</text>")}`;
}

function references(): string {
  let groups = `<g id="g0">${square}</g>`;
  for (let level = 1; level < 9; level += 1) {
    groups += `<g id="g${level}">${`<use href="#g${level - 1}"/>`.repeat(10)}</g>`;
  }
  return `<defs>${groups}</defs><use href="#g8"/>`;
}
