import { CellwrightError } from "../errors.ts";
import type { Json, Language, Variables } from "../execution.ts";

const MAX_IMAGE_BYTES = 10_000_000;

const keywords = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if
  import in is lambda nonlocal not or pass raise return try while with yield`.split(/\s+/),
);

const isName: Record<Language, (name: string) => boolean> = {
  python: (name) => /^[\p{XID_Start}_]\p{XID_Continue}*$/u.test(name) && !keywords.has(name),
  bash: (name) => /^[A-Za-z_]\w*$/.test(name),
};

/** Variables for a cell: the caller's values, and images as `image_0`, …; a single one also as `image`. */
export function codeVariables(
  variables: Record<string, unknown> = {},
  images: string[] = [],
  language: Language = "python",
): Variables {
  const values: [string, Variables[string]][] = [];
  for (const [name, value] of Object.entries(variables)) {
    if (!isName[language](name)) {
      const whose = { python: "Python", bash: "shell" }[language];
      throw new CellwrightError(
        "invalid_input",
        `variables: \`${name.slice(0, 100)}\` is not a valid ${whose} variable name.`,
      );
    }
    values.push([name, value as Json]);
  }
  for (const [index, image] of images.entries()) {
    const bytes = imageBytes(image, index);
    const names = images.length === 1 ? ["image_0", "image"] : [`image_${index}`];
    const taken = names.find((name) => Object.hasOwn(variables, name));
    if (taken)
      throw new CellwrightError("invalid_input", `variables: \`${taken}\` is also the name of an image. Rename it.`);
    values.push(...names.map((name): [string, Uint8Array] => [name, bytes]));
  }
  return Object.fromEntries(values);
}

function imageBytes(image: string, index: number): Uint8Array {
  const [, base64 = image] = /^data:[^,]{0,200};base64,(.*)$/s.exec(image) ?? [];
  const expected = "Pass base64, or a data: URI with base64.";
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length === 0 || bytes.toString("base64") !== base64) {
    throw new CellwrightError("invalid_input", `images[${index}] is not valid base64. ${expected}`);
  }
  if (bytes.length > MAX_IMAGE_BYTES) {
    throw new CellwrightError("too_large", `images[${index}] has ${bytes.length} bytes; the limit is 10 MB.`, {
      hint: "Scale it down, or put the file into the session with write_file or import_file.",
    });
  }
  return new Uint8Array(bytes);
}
