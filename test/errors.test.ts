import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { CellwrightError, type ErrorCode, errorCodes } from "../src/errors.ts";
import { findEnvironment } from "../src/kernels/local/environments/find.ts";
import { JupyterServer } from "../src/kernels/remote/server/server.ts";
import { createWasmProvider } from "../src/kernels/wasm/provider.ts";
import { createLog } from "../src/log.ts";
import { renderError } from "../src/render/reply.ts";
import { openDiskStore } from "../src/store/disk.ts";
import { openLocalWorkspace } from "../src/workspace/local/workspace.ts";
import { createFakeKernel, createFakeProvider } from "./support/fake-kernel.ts";
import { freePort } from "./support/jupyter-server.ts";
import { openMemoryStore } from "./support/memory-store.ts";
import { environmentsConfig } from "./support/pythons.ts";
import { createWorld, type World } from "./tools/support.ts";

/** A call that ends with each code, through the real tools and engine. A code without one does not compile. */
const provoke: Record<ErrorCode, () => Promise<{ code?: string | undefined; text: string }>> = {
  invalid_input: () => createWorld().call("execute_code", { code: 5 }),
  session_not_found: () => createWorld().call("execute_code", { code: "print a", session_id: "nowhere" }),
  session_in_use: async () => {
    const dataDir = temporaryFolder();
    const log = createLog("silent");
    const [one, two] = [await openDiskStore({ dataDir, log }), await openDiskStore({ dataDir, log })];
    const session_id = await newSession(createWorld({ store: one }));
    return createWorld({ store: two }).call("execute_code", { code: "print a", session_id });
  },
  session_limit: async () => {
    const world = createWorld();
    for (let i = 0; i < 5; i += 1) await newSession(world);
    return world.call("execute_code", { code: "print a" });
  },
  session_closed: async () => {
    const world = createWorld();
    const session_id = await newSession(world);
    await world.call("close_session", { session_id });
    return world.call("execute_code", { code: "print a", session_id });
  },
  kernel_not_found: () => createWorld({ provider: wasm() }).call("execute_code", { code: "1", env: "no-such-env" }),
  kernel_busy: async () => {
    const busy = { ...createFakeKernel(), inspect: () => Promise.reject(new CellwrightError("kernel_busy", "Busy.")) };
    const world = createWorld({ provider: { ...createFakeProvider(), start: async () => busy } });
    return world.call("list_variables", { session_id: await newSession(world) });
  },
  execution_not_found: async () => {
    const world = createWorld();
    return world.call("wait", { session_id: await newSession(world), execution_id: "none" });
  },
  variable_not_found: async () => {
    const world = createWorld({ provider: withKernel({ inspect: async () => [] }) });
    return world.call("inspect_variable", { session_id: await newSession(world), name: "nothing" });
  },
  file_not_found: async () => {
    const world = createWorld();
    return world.call("read_file", { session_id: await newSession(world), path: "none.txt" });
  },
  path_outside_session: async () => {
    const world = createWorld();
    return world.call("read_file", { session_id: await newSession(world), path: "../../session.json" });
  },
  path_protected: async () => {
    const protect = (root: string) => () => ({ folders: [], roots: [{ root, paths: [".git"] }] });
    const world = createWorld({ openWorkspace: (dir) => openLocalWorkspace(dir, { protect: protect(dir) }) });
    return world.call("write_file", { session_id: await newSession(world), path: ".git/config", content: "" });
  },
  host_path_refused: async () => {
    const world = createWorld();
    const hostFiles = openLocalWorkspace(temporaryFolder());
    return world.call("import_file", { session_id: await newSession(world), host_path: ".env" }, { hostFiles });
  },
  edit_failed: async () => {
    const world = createWorld();
    const session_id = await newSession(world);
    await world.call("write_file", { session_id, path: "a.txt", content: "one" });
    return world.call("edit_file", { session_id, path: "a.txt", old_text: "two", new_text: "three" });
  },
  too_large: () => createWorld().call("execute_code", { code: "1", images: [`${"A".repeat(14_000_000)}`] }),
  not_supported: async () => {
    const world = createWorld();
    return world.call("install_packages", { session_id: await newSession(world), packages: ["numpy"] });
  },
  storage_full: async () => {
    const full = () => Promise.reject(new CellwrightError("storage_full", "The journal could not be written."));
    const store = openMemoryStore();
    return createWorld({ store: Object.assign(store, { begin: full }) }).call("execute_code", { code: "print a" });
  },
  package_error: async () => {
    const missing = () => Promise.reject(new CellwrightError("package_error", "There is no package `nothing`."));
    const world = createWorld({ provider: withKernel({ install: missing }) });
    return world.call("install_packages", { session_id: await newSession(world), packages: ["nothing"] });
  },
  env_error: async () => {
    const start = () => findEnvironment("no-such-env", environmentsConfig({ dataDir: temporaryFolder() }));
    const provider = { ...createFakeProvider(), start: async () => (await start()) as never };
    return createWorld({ provider }).call("execute_code", { code: "1", env: "no-such-env" });
  },
  kernel_start_failed: async () => {
    const broken = temporaryFolder();
    writeFileSync(join(broken, "cache"), "a file where a folder should be");
    return createWorld({ provider: wasm({ cacheDir: join(broken, "cache") }) }).call("execute_code", { code: "1" });
  },
  kernel_start_timeout: () =>
    createWorld({ provider: wasm({ startTimeoutMs: 1 }) }).call("execute_code", { code: "1" }),
  shutting_down: async () => {
    const world = createWorld();
    await world.sessions.dispose();
    return world.call("execute_code", { code: "print a" });
  },
  kernel_died: async () => {
    const dead = () => Promise.reject(new CellwrightError("kernel_died", "It is gone."));
    const world = createWorld({ provider: withKernel({ inspect: dead }) });
    return world.call("list_variables", { session_id: await newSession(world) });
  },
  server_unreachable: async () => onJupyterServer(`http://127.0.0.1:${await freePort()}`),
  server_refused: async () => {
    const server = createServer((_request, response) => response.end("a page of another program"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    return onJupyterServer(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  },
  internal: async () => {
    const log: string[] = [];
    const bug = new Error("secret detail");
    const { content, _meta } = renderError(
      bug,
      createLog("error", (line) => log.push(line)),
    );
    expect(log.join()).toContain("secret detail");
    const error = _meta?.["cellwright/error"] as { code: string } | undefined;
    return { code: error?.code, text: JSON.stringify(content) };
  },
};

describe("every error code", () => {
  test.each(Object.keys(errorCodes) as ErrorCode[])("%s comes with its hint", async (code) => {
    const reply = await provoke[code]();
    expect(reply.code).toBe(code);
    expect(reply.text.length).toBeGreaterThan(20);
    expect(reply.text).not.toContain("secret detail");
    expect(reply.text).not.toMatch(/\n {4}at /);
  });
});

/** A cell whose kernel is to be started by a listener. */
function onJupyterServer(url: string) {
  const server = new JupyterServer({ url, token: "secret detail", log: createLog("silent") });
  const start = async () => {
    await server.check(AbortSignal.timeout(120_000));
    return createFakeKernel();
  };
  return createWorld({ provider: { ...createFakeProvider(), start } }).call("execute_code", { code: "1" });
}

async function newSession(world: Pick<World, "call">): Promise<string> {
  return (await world.call("execute_code", { code: "print a" })).execution.session_id;
}

function withKernel(methods: object) {
  return { ...createFakeProvider(), start: async () => Object.assign(createFakeKernel(), methods) };
}

function wasm(config: object = {}) {
  const cacheDir = join(import.meta.dirname, "../node_modules/.cache/cellwright-test/cache");
  const limits = { memoryMb: 512, diskMb: 64, jail: "auto" as const, startTimeoutMs: 120_000 };
  return createWasmProvider({ cacheDir, ...limits, log: createLog("silent"), ...config });
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-errors-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
