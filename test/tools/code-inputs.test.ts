import { describe, expect, test } from "vitest";
import { JsonText } from "../../src/json-text.ts";
import { createHandProvider } from "../support/hand-kernel.ts";
import { createWorld } from "./support.ts";

const pixel = Buffer.from("not really a picture").toString("base64");

async function given(args: Record<string, unknown>) {
  const { call, provider } = createWorld({ provider: createHandProvider() });
  provider.end();
  const reply = await call("execute_code", { code: "", ...args });
  return { reply, given: provider.given, text: reply.text, code: reply.code };
}

describe("images", () => {
  test("one image is image_0 and image, as bytes", async () => {
    const { given: values } = await given({ images: [pixel] });
    expect(Object.keys(values ?? {})).toEqual(["image_0", "image"]);
    expect(Buffer.from(values?.image as Uint8Array).toString()).toBe("not really a picture");
  });

  test("several are numbered, and data: URIs are taken too", async () => {
    const { given: values } = await given({ images: [pixel, `data:image/png;base64,${pixel}`] });
    expect(Object.keys(values ?? {})).toEqual(["image_0", "image_1"]);
    expect(values?.image_1).toEqual(values?.image_0);
  });

  test.each(["", "abc", "a b=", "####", "data:image/png,abcd", "QQ=", "QR=="])(
    "refuses %j and names it",
    async (bad) => {
      const { text, code } = await given({ images: [pixel, bad] });
      expect(code).toBe("invalid_input");
      expect(text).toContain("images[1] is not valid base64");
    },
  );

  test("refuses one that is too large, and too many", async () => {
    const large = Buffer.alloc(10_000_001).toString("base64");
    expect(await given({ images: [large] })).toMatchObject({ code: "too_large" });
    const { call } = createWorld();
    const many = call("execute_code", { code: "", images: Array(21).fill(pixel) });
    expect(await many).toMatchObject({ code: "invalid_input" });
  });
});

describe("variables", () => {
  test("are passed as values", async () => {
    const variables = { größe: 1.5, rows: [{ a: null }], _x: "text" };
    const wanted = structuredClone(variables);
    const { given: values } = await given({ variables });
    expect(JSON.parse(JSON.stringify(values))).toEqual(wanted);
  });

  test("are text from the start, because the request is still referenced: as values they take far more memory", async () => {
    const variables = { rows: [[], [1]], map: { a: {} }, text: "as it is", none: null, count: 2 };
    const { given: values } = await given({ variables });
    const packed = { rows: new JsonText("[[],[1]]"), map: new JsonText('{"a":{}}') };
    const { text, none, count } = variables;
    expect(variables).toEqual({ ...packed, text, none, count });
    expect(values).toEqual(variables);
  });

  test.each(["1a", "a-b", "", "class", "None", "a b", "a\n"])("refuses the name %j", async (name) => {
    const { text, code } = await given({ variables: { fine: 1, [name]: 2 } });
    expect(code).toBe("invalid_input");
    expect(text).toMatch(/^variables: `/);
    expect(text).toContain("is not a valid Python variable name");
    expect(text).toContain(name.trim());
  });

  test("refuses the name of an image", async () => {
    expect((await given({ variables: { image: 2 }, images: [pixel] })).text).toContain(
      "`image` is also the name of an image",
    );
  });
});
