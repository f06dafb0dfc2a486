/** Transports: bytes on the wire, access, and the network that code may reach, with the native tools. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { processesOf } from "../support/processes.ts";
import { programEnv, programPath, startHttp, startStdio, temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, onWasm } from "./x-support.ts";

describe("transports", () => {
  test("X-39 stdout is JSON-RPC and nothing else, however much is logged, installed and printed", async () => {
    const { child, lines, call } = await startRaw([...onWasm, "--log-level", "debug"]);
    const noise = [
      "import os, sys",
      "print('printed'); print('to stderr', file=sys.stderr)",
      "for fd in (1, 2): os.write(fd, b'straight to the descriptor\\n')",
      "for file in (sys.__stdout__, sys.__stderr__): file.write('past the notebook\\n')",
    ].join("\n");
    const first = await call("execute_code", { code: noise });
    const session_id = first._meta["cellwright/execution"]?.session_id;
    await call("execute_code", { session_id, code: "from js import console\nconsole.log('from JavaScript')" });
    // Whether or not it can be installed, the installer reports something.
    await call("install_packages", { session_id, packages: ["no-such-package-of-anybody"] });
    await call("execute_code", { session_id, code: "import os\nos._exit(3)" });
    expect(lines.length).toBeGreaterThan(4);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
    await ended(child, () => child.stdin?.end());
  });

  test("X-40 two clients at once get their own answers, of either protocol, and bad requests do no harm", async () => {
    const program = await startHttp({ args: onWasm });
    // The newest protocol has no connections: each request is independent.
    const [one, other] = [await program.client("v2 legacy"), await program.client("v2 modern")];
    const sessions = [await newSession(one, "mine = 'one'"), await newSession(other, "mine = 'other'")];
    const ask = async (index: 0 | 1, number: number) => {
      const client = index === 0 ? one : other;
      const { structured } = await client.run(`print(mine, ${number})`, { session_id: sessions[index] });
      return structured?.stdout;
    };
    const numbers = Array.from({ length: 20 }, (_, number) => number);
    const asked = await Promise.all([0, 1].map((index) => Promise.all(numbers.map((n) => ask(index as 0 | 1, n)))));
    expect(asked).toEqual(["one", "other"].map((name) => numbers.map((number) => `${name} ${number}\n`)));

    const { origin } = new URL(program.url);
    const post = (path: string, init: RequestInit) => fetch(origin + path, { method: "POST", ...init });
    const accept = "application/json, text/event-stream";
    const json = { "content-type": "application/json", accept, ...program.headers };
    const bad = await post("/mcp", { body: "{bad", headers: json });
    expect(bad.status).toBe(400);
    expect(await bad.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32700 } });
    expect((await post("/nowhere", { body: "{}", headers: json })).status).toBe(404);
    expect((await fetch(`${origin}/mcp`, { method: "PUT", body: "{}", headers: json })).status).toBe(405);
    expect((await post("/mcp", { body: '{"jsonrpc":"2.0","id":1,"method":"ping"}', headers: json })).status).toBe(400);
    expect(await ask(0, 99)).toBe("one 99\n");
    expect(await ask(1, 99)).toBe("other 99\n");
  });

  test("X-41 loopback only, unless a token is set; requests without it, or from other origins, are refused", async () => {
    const open = await startHttp({ args: onWasm });
    expect(new URL(open.url).hostname).toBe("127.0.0.1");
    expect(await statusOf(open.url, {})).toBe(401);
    expect(await statusOf(open.url, open.headers)).toBe(200);
    const refused = await run(["serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", temporaryDataDir()]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("--auth-token") });

    const program = await startHttp({ args: [...onWasm, "--auth-token", "the-right-one-of-all"] });
    const status = (headers: Record<string, string>) => statusOf(program.url, headers);
    expect(await status({})).toBe(401);
    expect(await status({ authorization: "Bearer the-wrong-one" })).toBe(401);
    const right = { authorization: "Bearer the-right-one-of-all" };
    expect(await status({ ...right, host: "evil.example" })).toBe(403);
    expect(await status({ ...right, origin: "https://evil.example" })).toBe(403);
    expect(await status(right)).toBe(200);
  });
});

describeWith("localKernels", "network", () => {
  test("X-42 code has no network, on either transport; and where it has, nothing but the public one", async () => {
    const hits: string[] = [];
    const web = createServer((incoming, response) => {
      hits.push(incoming.url ?? "");
      if (incoming.url === "/away") response.writeHead(302, { location: `http://127.0.0.2:${port}/inside` }).end();
      else response.end("reached");
    });
    await new Promise<void>((resolve) => web.listen(0, "0.0.0.0", resolve));
    onTestFinished(() => void web.close());
    const { port } = web.address() as AddressInfo;
    // Without the setting that exempts a jail's own loopback from its proxy.
    const asking = "import os, urllib.request\nfor name in 'no_proxy', 'NO_PROXY': os.environ.pop(name, None)\n";
    const get = (url: string) => `${asking}urllib.request.urlopen("${url}", timeout=5).read()`;
    const url = `http://127.0.0.1:${port}`;

    const overStdio = await startStdio({ args: onLocal });
    const overHttp = await (await startHttp({ args: onLocal })).client();
    for (const client of [overStdio, overHttp]) {
      const { structured } = await client.run(get(`${url}/off`));
      expect(structured).toMatchObject({ status: "error" });
      expect((await client.run("'reachable'")).structured?.result).toBe("'reachable'");
    }
    const wasm = await startStdio({ args: onWasm });
    const fetching = `from pyodide.code import run_js\nawait run_js("fetch('${url}/wasm').then(r => r.text())")`;
    expect((await wasm.run(fetching)).structured).toMatchObject({ status: "error" });
    expect(hits).toEqual([]);

    // Every host, at this port: a refusal can only be due to the address.
    const networked = await startStdio({ args: [...onLocal, `--allow-net=*:${port},*:80`] });
    const places = [url, `http://localhost:${port}`, `http://10.0.0.1:${port}`, "http://169.254.169.254"];
    for (const place of places) {
      const reply = await networked.run(get(`${place}/on`));
      expect({ place, status: reply.structured?.status }).toEqual({ place, status: "error" });
      expect(reply.text).toMatch(/403|public internet/);
    }
    expect(hits).toEqual([]);
    // The control: a host allowed by its address is reached; a redirect from there to another is not.
    const allowed = await startStdio({ args: [...onLocal, `--allow-net=127.0.0.1:${port}`] });
    expect((await allowed.run(get(`${url}/allowed`))).structured?.result).toBe("b'reached'");
    expect((await allowed.run(get(`${url}/away`))).text).toContain("403");
    expect(hits).toEqual(["/allowed", "/away"]);
  });
});

describe("the end of a server", () => {
  test("X-46 end of input and signals end it within seconds while cells run, and leave no process", async () => {
    const ways = {
      "end of input": (child: ChildProcess) => child.stdin?.end(),
      SIGTERM: (child: ChildProcess) => child.kill("SIGTERM"),
      SIGINT: (child: ChildProcess) => child.kill("SIGINT"),
    };
    for (const [way, end] of Object.entries(ways)) {
      const dataDir = temporaryDataDir();
      const { child, call } = await startRaw(onWasm, dataDir);
      const first = await call("execute_code", { code: "import time" });
      const session_id = first._meta["cellwright/execution"]?.session_id;
      const stubborn = "while True:\n    try: time.sleep(600)\n    except BaseException: pass";
      await call("execute_code", { session_id, code: stubborn, wait_s: 0 });
      void call("execute_code", { code: "while True: pass" });
      await until("two kernels to burn", () => processesOf(dataDir).length > 2);
      const code = await ended(child, () => end(child));
      expect({ way, code }).toEqual({ way, code: 0 });
      await until("all processes to be gone", () => processesOf(dataDir).length === 0);
    }
  });
});

/** The program, driven line by line. */
async function startRaw(args: string[], dataDir = temporaryDataDir()) {
  const child = spawn(process.execPath, [programPath, "--data-dir", dataDir, ...args], {
    env: programEnv({}),
    stdio: "pipe",
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  const replies = new Map<number, (message: { result: RawResult }) => void>();
  child.stderr.resume();
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line);
    const message = JSON.parse(line);
    replies.get(message.id)?.(message);
  });
  let id = 0;
  const ask = (method: string, params: object) =>
    new Promise<{ result: RawResult }>((resolve) => {
      id += 1;
      replies.set(id, resolve);
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  const clientInfo = { name: "raw", version: "1" };
  await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  const call = async (name: string, args: object) => (await ask("tools/call", { name, arguments: args })).result;
  return { child, lines, call };
}

interface RawResult {
  _meta: Record<string, { session_id: string }>;
}

async function ended(child: ChildProcess, end: () => void): Promise<number | null> {
  const exited = once(child, "exit");
  end();
  return (await exited)[0];
}

function run(args: string[]): Promise<{ code: number; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [programPath, ...args], (error, _, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stderr });
    });
  });
}

/** `fetch` does not allow setting the Host header. */
function statusOf(url: string, headers: Record<string, string>): Promise<number> {
  const clientInfo = { name: "raw", version: "1" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const common = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  return new Promise((resolve, reject) => {
    const asking = request(url, { method: "POST", headers: { ...common, ...headers } }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asking.on("error", reject);
    asking.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }));
  });
}
