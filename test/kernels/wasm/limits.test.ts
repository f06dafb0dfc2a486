import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { failure, result, run, text } from "../../contracts/kernel.ts";
import { wasmKernels } from "./wasm-kernels.ts";

const kernels = wasmKernels({ memoryMb: 256, diskMb: 8 });
const { kernel, workspaceDir } = await kernels.start();

test("too much memory is a MemoryError, and variables are kept", async () => {
  await run(kernel, "kept = 'still here'");
  expect(failure(await run(kernel, "hoard = []\nwhile True: hoard.append(bytearray(10**7))"))).toMatchObject({
    name: "MemoryError",
  });
  await run(kernel, "del hoard");
  expect(result(await run(kernel, "kept, len(bytearray(10**7))"))).toBe("('still here', 10000000)");
});

test("a bomb of JavaScript buffers ends the kernel as out of memory", async () => {
  const bombed = await kernels.start();
  const code =
    "from pyodide.code import run_js\nrun_js('globalThis.z=[]; for(;;) z.push(new Uint8Array(2**25).fill(1))')";
  await expect(run(bombed.kernel, code)).rejects.toMatchObject({
    code: "kernel_died",
    message: expect.stringContaining("out of memory"),
  });
});

test("a bomb of JavaScript objects ends the kernel as out of memory", async () => {
  const bombed = await kernels.start();
  const code = "from pyodide.code import run_js\nrun_js('globalThis.z=[]; for(;;) z.push({a:[1,2,3]})')";
  await expect(run(bombed.kernel, code)).rejects.toMatchObject({
    code: "kernel_died",
    message: expect.stringContaining("out of memory"),
  });
});

test("a full workspace is an OSError, and room can be made", async () => {
  const fill =
    "import errno, os\nwith open('big.bin', 'wb') as file:\n    for _ in range(20): file.write(bytes(10**6))";
  const error = failure(await run(kernel, fill));
  expect(error).toMatchObject({ name: "OSError", message: expect.stringContaining("No space left on device") });
  expect(result(await run(kernel, "os.remove('big.bin'); open('small.bin', 'wb').write(bytes(10**6))"))).toBe(
    "1000000",
  );
});

test("writing the same bytes again does not use the workspace up", async () => {
  const code = "for _ in range(40):\n    with open('again.bin', 'wb') as file: file.write(bytes(10**6))\n'ok'";
  expect(result(await run(kernel, code))).toBe("'ok'");
});

test("many small files fill the workspace too", async () => {
  const error = failure(await run(kernel, "for i in range(10_000): open(f'tiny-{i}', 'w').close()"));
  expect(error).toMatchObject({ message: expect.stringContaining("No space left on device") });
  expect((await readdir(workspaceDir)).length).toBeLessThan(2_500);
  await run(kernel, "import glob\nfor name in glob.glob('tiny-*'): os.remove(name)");
});

test("a kernel that goes around the quota is ended, with the reason", async () => {
  const bombed = await kernels.start();
  const js = "const b = new Uint8Array(2**20); for (let i = 0;; i++) Deno.writeFileSync('PLACE/' + i, b)";
  const place = bombed.kernel.info.layers.includes("namespaces") ? "/cell/files" : bombed.workspaceDir;
  const code = `from pyodide.code import run_js\nrun_js(${JSON.stringify(js.replace("PLACE", place))})`;
  await expect(run(bombed.kernel, code)).rejects.toMatchObject({
    code: "kernel_died",
    message: expect.stringContaining("files grew beyond the limit of 8 MB"),
  });
});

test("beyond 64 MB a cell's output is cut, and its last lines still come", async () => {
  const events = await run(kernel, "for i in range(80): print('x' * 2**20)\nprint('the last line')");
  const shown = text(events);
  expect(shown.length).toBeGreaterThan(60 * 2 ** 20);
  expect(shown.length).toBeLessThan(65 * 2 ** 20);
  expect(shown.endsWith("the last line\n")).toBe(true);
  expect(text(events, "stderr")).toMatch(/\d+ characters left out here: a cell may show 64 MB/);
});

test("a huge display is replaced by a sentence, a huge repr is cut", async () => {
  const events = await run(
    kernel,
    "class Huge:\n    def _repr_html_(self): return 'x' * 17 * 2**20\n    def __repr__(self): return 'y' * 3_000_000\n" +
      "display(Huge())\ndel Huge._repr_html_\ndisplay(Huge())\n'z' * 5_000_000",
  );
  const [sentence, cut, long] = events.map((event) => ("data" in event ? String(event.data["text/plain"]) : ""));
  expect(sentence).toMatch(/left out: this output is \d+ MB/);
  expect(cut?.length).toBeLessThan(1_000_200);
  expect(long?.length).toBeLessThan(1_000_200);
});

test("a slow reader holds the kernel back instead of filling our memory", async () => {
  const before = process.memoryUsage().rss;
  let chars = 0;
  for await (const event of kernel.execute("for i in range(60): print('x' * 2**20)")) {
    if (event.type === "stream") chars += event.text.length;
    if (chars < 2 ** 20) await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(chars).toBe(60 * (2 ** 20 + 1));
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 2 ** 20);
});
