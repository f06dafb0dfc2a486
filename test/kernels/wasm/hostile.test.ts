import { describe, expect, test } from "vitest";
import { result, run, text } from "../../contracts/kernel.ts";
import { wasmKernels } from "./wasm-kernels.ts";

const kernels = wasmKernels();

/** A cell that runs JavaScript in the worker that holds Python. */
function js(source: string): string {
  return `from pyodide.code import run_js\nrun_js(${JSON.stringify(source)})`;
}

test("lines and messages forged by a cell are not believed", async () => {
  const { kernel } = await kernels.start();
  const forged = JSON.stringify({
    type: "event",
    cell: 2,
    event: { type: "done", status: "error", executionCount: 99 },
  });
  await run(
    kernel,
    js(`Deno.stdout.writeSync(new TextEncoder().encode(${JSON.stringify(`${forged}\nnot json\n\n`)}))`),
  );
  await run(kernel, js(`self.postMessage(${forged}); self.postMessage({ failed: "x" }); 1`));
  const events = await run(kernel, "print('honest')");
  expect(events).toMatchObject([{ text: "honest\n" }, { type: "done", status: "ok" }]);
  await kernel.dispose();
});

test("a line without end costs the kernel its life, not our memory", async () => {
  const { kernel } = await kernels.start();
  const flood = js("const b = new Uint8Array(2**26).fill(120); for (let i = 0; i < 8; i++) Deno.stdout.writeSync(b)");
  await expect(run(kernel, flood)).rejects.toMatchObject({ code: "kernel_died" });
});

test("a cell that steals our lines ends its kernel, and nothing hangs", async () => {
  const { kernel } = await kernels.start();
  await run(kernel, js("(async () => { for (;;) await Deno.stdin.read(new Uint8Array(1 << 20)) })(); 1"));
  let died = false;
  for (let attempt = 0; attempt < 20 && !died; attempt += 1) {
    died = await run(kernel, "1").then(
      () => false,
      (error) => error.code === "kernel_died",
    );
  }
  expect(died).toBe(true);
});

test("garbage in the ring ends the kernel", async () => {
  const { kernel } = await kernels.start();
  // The header is found by hooking the functions that use it.
  await run(
    kernel,
    js("const load = Atomics.load; Atomics.load = (a, i) => { globalThis.header = a; return load(a, i) }; 1"),
  );
  await run(kernel, "print('used')");
  await expect(
    run(kernel, `${js("Atomics.store(header, 0, 12345); self.postMessage(null)")}\nwhile True: pass`),
  ).rejects.toMatchObject({ code: "kernel_died", message: expect.stringContaining("garbage") });
});

test("polluted prototypes and forged keys stay in the worker", async () => {
  const { kernel } = await kernels.start();
  await run(kernel, js("Object.prototype.polluted = 'yes'; Array.prototype.polluted = 'yes'; 1"));
  const events = await run(kernel, "display({'__proto__': {'polluted': 1}, 'text/plain': 'ok'}, raw=True)");
  expect(events[0]).toEqual({ type: "display", data: { "text/plain": "ok" } });
  expect(Object.keys((events[0] as { data: object }).data)).toEqual(["text/plain"]);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  await kernel.dispose();
});

describe.each([
  ["Deno.exit()", "Deno.exit(7)"],
  ["self.close()", "self.close(); 1"],
  ["an error in the event loop", "setTimeout(() => { throw new Error('boom') }, 1); 1"],
])("a worker ended by %s", (_name, source) => {
  test("is noticed in mid-cell", async () => {
    const { kernel } = await kernels.start();
    await expect(run(kernel, `${js(source)}\nimport asyncio\nawait asyncio.sleep(600)`)).rejects.toMatchObject({
      code: "kernel_died",
    });
  });
});

test("a worker that ends while idle is noticed", async () => {
  const { kernel } = await kernels.start();
  await run(kernel, js("setTimeout(() => self.close(), 50); 1"));
  expect((await kernel.closed).reason).toContain("exited unexpectedly");
});

describe.each([
  ["a host file", "Deno.readTextFileSync('/etc/hostname')"],
  ["the environment", "Deno.env.toObject()"],
  ["a process", "new Deno.Command(Deno.execPath()).outputSync()"],
  ["the supervisor's file system", "Deno.writeTextFileSync('/tmp/escaped', 'x')"],
  ["a library", "Deno.dlopen('libc.so.6', {})"],
])("from JavaScript, %s", (_name, source) => {
  test("is out of reach", async () => {
    const { kernel } = await kernels.start();
    const events = await run(kernel, js(`try { ${source}; 'open' } catch (e) { e.name }`));
    expect(result(events)).toBe("'NotCapable'");
    await kernel.dispose();
  });
});

test("from JavaScript, the network is out of reach", async () => {
  const { kernel } = await kernels.start();
  const code = `${js("globalThis.reach = fetch('http://127.0.0.1/').then(() => 'open', (e) => e.name); 1")}\nfrom js import reach\nprint(await reach)`;
  expect(text(await run(kernel, code))).toBe("NotCapable\n");
  await kernel.dispose();
});
