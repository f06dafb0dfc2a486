import type { ExecutionEvent } from "../../execution.ts";
import type { Kernel } from "../../kernels/kernel.ts";
import type { SandboxReply } from "../../sandbox/protocol.ts";

/** Limit of one image as base64. */
const MAX_CHARS = 10 * 1024 * 1024;

const invalid = (index: number | string) => `initialization_images[${index}] is not a valid image`;
const INVALID = new RegExp(`^ValueError: (${invalid("\\d+").replace("[", "\\[").replace("]", "\\]")})$`);

/**
 * Python code that loads images as `image_0`, … and leaves no other names behind, or what is wrong with them. Only
 * validated base64 is inserted into it.
 */
export function imageSetup(images: string[]): { setup?: string; problem?: string } {
  if (images.length === 0) return {};
  const texts: string[] = [];
  for (const [index, image] of images.entries()) {
    const text = image.replace(/^data:image\/[\w.+-]{1,50};base64,/, "");
    if (text.length > MAX_CHARS) return { problem: `initialization_images[${index}] is larger than 10 MB` };
    if (!isBase64(text)) return { problem: invalid(index) };
    texts.push(text);
  }
  return { setup: loading(texts) };
}

/** Runs setup code, then the cell. Only a failure of the setup is visible, and the cell is skipped then. */
export async function* afterSetup(
  kernel: Kernel,
  { setup, timeoutMs }: { setup: string; timeoutMs: number },
  cell: () => AsyncIterable<ExecutionEvent>,
): AsyncIterable<ExecutionEvent> {
  const shown: ExecutionEvent[] = [];
  for await (const event of kernel.execute(setup, { silent: true, timeoutMs })) shown.push(event);
  const isFailure = shown.some((event) => event.type === "done" && event.status === "error");
  yield* isFailure ? shown : cell();
}

/** Shows a failure to load an image without the setup code. */
export function withoutSetupWords(reply: SandboxReply): SandboxReply {
  const [, problem] = INVALID.exec(reply.error ?? "") ?? [];
  if (problem === undefined) return reply;
  return { ...reply, error: problem, output: { stdout: "", stderr: "", images: [] } };
}

function isBase64(text: string): boolean {
  return text !== "" && Buffer.from(text, "base64").toString("base64") === text;
}

function loading(texts: string[]): string {
  return `def _cellwright_load(texts):
    from base64 import b64decode
    from io import BytesIO
    from PIL import Image
    images = {}
    for index, text in enumerate(texts):
        try:
            image = Image.open(BytesIO(b64decode(text)))
            image.load()
        except Exception:
            raise ValueError(f"${invalid("{index}")}") from None
        images[f"image_{index}"] = image
    return {**images, "image": images["image_0"]} if len(images) == 1 else images
try:
    globals().update(_cellwright_load(${JSON.stringify(texts)}))
finally:
    del _cellwright_load`;
}
