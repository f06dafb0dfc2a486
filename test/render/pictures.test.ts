import { decode, encode } from "fast-png";
import jpeg from "jpeg-js";
import { describe, expect, test } from "vitest";
import { readHeader } from "../../src/render/pictures/header.ts";
import { scalePicture } from "../../src/render/pictures/scale.ts";
import { createScaler } from "../../src/render/pictures/scaler.ts";
import { jpg, pixels, png, renderCell, shown } from "./support.ts";

const bytesOf = (base64 = "") => Buffer.from(base64, "base64");

describe("a picture in a reply", () => {
  test("that fits is as it was", async () => {
    for (const [mimeType, data] of [
      ["image/png", png(200, 100)],
      ["image/jpeg", jpg(200, 100)],
      ["image/gif", Buffer.from("GIF89a\u0010\0\u0010\0\0\0\0;", "latin1").toString("base64")],
    ]) {
      const { images, links, text } = await renderCell([shown({ [mimeType as string]: data })]);
      expect(images).toEqual([{ type: "image", mimeType, data }]);
      expect(links).toEqual([]);
      expect(text).not.toContain("picture");
    }
  });

  test("that is too large is scaled, and the original linked", async () => {
    const original = png(4_000, 2_000);
    const { images, links, text, store, shape } = await renderCell([shown({ "image/png": original })]);
    expect(shape).toEqual(["text", "image", "resource_link", "text"]);
    expect(text).toMatch(
      /^\[picture: image\/png, 4000 × 2000, [\d.]+ .B, shown at 1568 × 784; the original is \.outputs\/\w+\.png\]\n/,
    );
    const { width, height, data } = decode(bytesOf(images[0]?.data));
    expect([width, height]).toEqual([1_568, 784]);
    expect([...data.subarray(0, 3)]).toEqual([0, 0, 0]);
    expect(bytesOf(images[0]?.data).length).toBeLessThanOrEqual(700_000);
    const blob = await store.getBlob(links[0]?.uri ?? "");
    expect(Buffer.from(blob?.bytes ?? []).toString("base64")).toBe(original);
  });

  test("that stays too many bytes as PNG becomes JPEG on white", async () => {
    const { images } = await renderCell([shown({ "image/png": png(1_500, 1_500, { noise: true }) })]);
    expect(images[0]?.mimeType).toBe("image/jpeg");
    expect(bytesOf(images[0]?.data).length).toBeLessThanOrEqual(700_000);
    expect(jpeg.decode(bytesOf(images[0]?.data)).width).toBeGreaterThan(500);
  });

  test("keeps what is transparent", async () => {
    const { images } = await renderCell([shown({ "image/png": png(2_000, 2_000, { alpha: 128 }) })]);
    const { channels, data } = decode(bytesOf(images[0]?.data));
    expect(channels).toBe(4);
    expect(data[3]).toBe(128);
  });

  test("of photos is scaled too", async () => {
    const { images } = await renderCell([shown({ "image/jpeg": jpg(2_000, 1_000) })]);
    expect(images[0]?.mimeType).toBe("image/jpeg");
    expect(readHeader(bytesOf(images[0]?.data))).toMatchObject({ width: 1_568, height: 784 });
  });

  test("shares the reply with others: each is scaled further", async () => {
    const noise = png(415, 415, { noise: true });
    expect(bytesOf(noise).length).toBeGreaterThan(500_000);
    const { images, result, links } = await renderCell(Array.from({ length: 6 }, () => shown({ "image/png": noise })));
    expect(images).toHaveLength(6);
    expect(links).toHaveLength(6);
    for (const { data } of images) expect(readHeader(bytesOf(data))?.width).toBeGreaterThan(200);
    expect(Buffer.byteLength(JSON.stringify(result))).toBeLessThanOrEqual(1_000_000);
  });

  test("that says it is 40 000 pixels wide is not decoded", async () => {
    const bomb = bytesOf(png(10, 10));
    bomb.writeUInt32BE(40_000, 16);
    bomb.writeUInt32BE(40_000, 20);
    const { images, links, text } = await renderCell([shown({ "image/png": bomb.toString("base64") })]);
    expect(images).toEqual([]);
    expect(links).toHaveLength(1);
    expect(text).toContain("40000 × 40000");
    expect(text).toContain("too large to show");
  });

  const cutOff = bytesOf(png(300, 300)).subarray(0, 400);
  const flipped = bytesOf(png(300, 300));
  flipped[flipped.length - 30] = (flipped[flipped.length - 30] ?? 0) ^ 255;
  const cutOffJpeg = bytesOf(jpg(300, 300)).subarray(0, 2_000);
  test.each([
    ["cut off", cutOff.toString("base64")],
    ["with a wrong byte", flipped.toString("base64")],
    ["as JPEG, cut off", cutOffJpeg.toString("base64")],
    ["of text", Buffer.from("this is no picture").toString("base64")],
    ["of no base64", "((((((((((((("],
    ["of the signature alone", "iVBORw0KGgo="],
    ["of one byte", "iQ=="],
  ])("%s is linked with a note, not shown", async (_, data) => {
    const { images, text } = await renderCell([shown({ "image/png": data, "text/plain": "Plot(1)" })]);
    expect(images).toEqual([]);
    expect(text).toMatch(/^Plot\(1\)\n/);
    if (bytesOf(data).length > 0) expect(text).toMatch(/\[picture: a damaged .*; it is \.outputs\/\w+\.png\]/);
  });

  test("of nothing is no picture", async () => {
    const { images, links, text } = await renderCell([shown({ "image/png": "" })]);
    expect([images, links]).toEqual([[], []]);
    expect(text).toContain("[session");
  });

  test("is called what it is", async () => {
    const { images } = await renderCell([shown({ "image/png": jpg(20, 20) })]);
    expect(images[0]?.mimeType).toBe("image/jpeg");
  });

  test("that cannot be scaled here is linked when it is too large", async () => {
    const gif = Buffer.from("GIF89a\0\u0010\0\u0010\0\0\0;", "latin1").toString("base64");
    const { images, links, text } = await renderCell([shown({ "image/gif": gif })]);
    expect(images).toEqual([]);
    expect(links).toHaveLength(1);
    expect(text).toContain("4096 × 4096");
  });
});

describe("scaling", () => {
  const limits = { maxSide: 50, maxBytes: 100_000 };
  const rgb = (data: Uint8Array, pixel: number) => [...data.subarray(pixel * 3, pixel * 3 + 3)];

  test("averages areas", () => {
    const data = Uint8Array.from({ length: 100 * 100 }, (_, index) => ((index + Math.floor(index / 100)) % 2) * 255);
    const bytes = encode({ width: 100, height: 100, channels: 1, data });
    const scaled = scalePicture({ bytes, mimeType: "image/png", ...limits });
    const grey = decode(scaled?.bytes ?? new Uint8Array());
    expect([grey.width, grey.height, grey.channels]).toEqual([50, 50, 3]);
    expect(new Set(grey.data)).toEqual(new Set([128]));
  });

  test("reads every kind of PNG", () => {
    const size = 64;
    const count = size * size;
    const kinds = {
      "grey 1 bit": { channels: 1, depth: 1, data: new Uint8Array(count / 8).fill(0xff) },
      "grey 8 bit": { channels: 1, depth: 8, data: new Uint8Array(count).fill(255) },
      "grey 16 bit": { channels: 1, depth: 16, data: new Uint16Array(count).fill(65_535) },
      "grey and alpha": { channels: 2, depth: 8, data: new Uint8Array(count * 2).fill(255) },
      "red, green, blue": { channels: 3, depth: 8, data: new Uint8Array(count * 3).fill(255) },
      "16 bit with alpha": { channels: 4, depth: 16, data: new Uint16Array(count * 4).fill(65_535) },
      palette: { channels: 1, depth: 8, data: new Uint8Array(count), palette: [[255, 255, 255]] },
    } as const;
    for (const [name, kind] of Object.entries(kinds)) {
      const bytes = encode({ width: size, height: size, ...kind } as never);
      const scaled = decode(scalePicture({ bytes, mimeType: "image/png", ...limits })?.bytes ?? new Uint8Array());
      expect(scaled.width, name).toBe(50);
      expect(rgb(scaled.data as Uint8Array, 100), name).toEqual([255, 255, 255]);
    }
    const interlaced = encode({ width: size, height: size, data: pixels(size, size) }, { interlace: "Adam7" });
    expect(scalePicture({ bytes: interlaced, mimeType: "image/png", ...limits })?.width).toBe(50);
  });

  test("keeps a thin picture at least one pixel thin", () => {
    const bytes = encode({ width: 3_000, height: 2, channels: 1, data: new Uint8Array(6_000) });
    expect(scalePicture({ bytes, mimeType: "image/png", ...limits })).toMatchObject({ width: 50, height: 1 });
  });

  test("gives up on what cannot fit", () => {
    const bytes = bytesOf(png(200, 200, { noise: true }));
    expect(scalePicture({ bytes, mimeType: "image/png", maxSide: 200, maxBytes: 200 })).toBeUndefined();
  });

  test("a scaler never rejects, and stops at its deadline", async () => {
    const scaler = createScaler({ deadlineMs: 0 });
    const bytes = bytesOf(png(100, 100));
    expect(await scaler.scale({ bytes, mimeType: "image/png", ...limits })).toBeUndefined();
    const broken = createScaler();
    expect(await broken.scale({ bytes: bytes.subarray(0, 50), mimeType: "image/png", ...limits })).toBeUndefined();
    await broken.close();
  });
});
