// Group C over HTTP: authentication, size limits, and slow clients.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, js, protects, proves, short, sleep, timed, until } from "./case.mjs";
import { MAX_PEAK_MB, MAX_REPLY_BYTES, peakOf } from "./peak.mjs";
import { rssMb, startHttp, startStdio } from "./server.mjs";
import { tokens } from "./stage.mjs";

const q = JSON.stringify;
const MODERN = "2026-07-28";
const initialize = q({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } },
});
const accept = { "content-type": "application/json", accept: "application/json, text/event-stream" };

/**
 * A raw request: any header, any body.
 * @param {{ port: number }} server
 * @param {{ method?: string, path?: string, headers?: object, body?: string | Buffer, token?: string }} [what]
 */
function send(server, { method = "POST", path = "/mcp", headers = {}, body = initialize, token = tokens.alice } = {}) {
  return new Promise((resolve, reject) => {
    const authorization = token ? { authorization: `Bearer ${token}` } : {};
    const request = httpRequest({
      host: "127.0.0.1",
      port: server.port,
      method,
      path,
      headers: { ...accept, ...authorization, ...headers },
    });
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode, text, headers: response.headers }));
      response.on("error", () => resolve({ status: response.statusCode, text, headers: response.headers }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function welcome(stage) {
  const server = await stage.server("http");
  const reply = await send(server);
  proves(reply.status === 200, `${reply.status} ${short(reply.text)}`);
  return "the authorised twin is served";
}

/** Sends raw bytes, keeps the connection open and returns the answer. */
function rawSocket(server, bytes) {
  const socket = connect(server.port, "127.0.0.1");
  const state = { socket, text: "", closed: false };
  socket.setEncoding("latin1").on("data", (chunk) => {
    state.text += chunk;
  });
  socket.on("close", () => {
    state.closed = true;
  });
  socket.on("error", () => {});
  socket.write(bytes);
  return state;
}

const head = (more) =>
  `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${tokens.alice}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n${more}`;

const c37 = {
  id: "C37",
  class: "A2",
  what: "oversized body, chunks without end, lying Content-Length",
  async probe(stage) {
    const server = await stage.server("http");
    const before = rssMb(server.pid);
    const announced = rawSocket(server, head("Content-Length: 1000000000\r\n\r\n{"));
    await until("413 before the body", () => / 413 /.test(announced.text), 2_000);
    const expecting = rawSocket(server, head("Expect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n"));
    await until("413 before 100", () => / 413 /.test(expecting.text), 2_000);
    expect(!/ 100 Continue/.test(expecting.text), "a body that is too large is asked for");
    const chunked = rawSocket(server, head("Transfer-Encoding: chunked\r\n\r\n"));
    const chunk = `100000\r\n${"x".repeat(0x100000)}\r\n`;
    for (let sent = 0; sent < 70 && !/ 413 /.test(chunked.text) && !chunked.closed; sent += 1) {
      chunked.socket.write(chunk);
      await sleep(20);
    }
    await until("413 for chunks without end", () => / 413 /.test(chunked.text) || chunked.closed, 3_000);
    const lying = rawSocket(server, head("Content-Length: 100\r\n\r\n{}"));
    const both = rawSocket(
      server,
      head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"),
    );
    await until("a refused smuggle", () => / 400 /.test(both.text) || both.closed, 3_000);
    const { ms } = await timed(() => server.admin.call("list_sessions"));
    expect(ms < 1_500, `a real client waited ${Math.round(ms)} ms`);
    expect(rssMb(server.pid) - before < 100, `the server grew by ${Math.round(rssMb(server.pid) - before)} MB`);
    for (const { socket } of [announced, expecting, chunked, lying, both]) socket.destroy();
  },
  control: welcome,
};

const c38 = {
  id: "C38",
  class: "A2",
  what: "slow-loris headers and bodies; thousands of idle sockets",
  async probe(stage) {
    const server = await stage.server("http");
    const slow = Array.from({ length: 100 }, () => rawSocket(server, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"));
    const bodies = Array.from({ length: 100 }, () => rawSocket(server, head("Content-Length: 1000\r\n\r\n{")));
    const idle = Array.from({ length: stage.times(5_000, 1_000) }, () => rawSocket(server, ""));
    await sleep(500);
    for (let turn = 0; turn < 5; turn += 1) {
      const { ms } = await timed(() => server.admin.run("keep", { session_id: server.neighbour }));
      expect(ms < 2_000, `a real client waited ${Math.round(ms)} ms`);
      for (const { socket } of slow) socket.write("a");
      await sleep(100);
    }
    const fresh = await send(server);
    expect(fresh.status === 200, `a new client gets ${fresh.status}`);
    if (!stage.short) await until("slow headers to be cut off", () => slow.every(({ closed }) => closed), 22_000);
    for (const { socket } of [...slow, ...bodies, ...idle]) socket.destroy();
    await sleep(300);
  },
  control: welcome,
};

const c39 = {
  id: "C39",
  class: "S5",
  what: "evil Origin, rebinding Host, no token, wrong token, token in the URL",
  async probe(stage) {
    const server = await stage.server("http");
    /** @type {[what: Parameters<typeof send>[1], status: number][]} */
    const cases = [
      [{ headers: { origin: "https://evil.example" } }, 403],
      [{ headers: { origin: "null" } }, 403],
      [{ headers: { origin: `http://127.0.0.1.evil.example:${server.port}` } }, 403],
      [{ headers: { origin: "http://localhost@evil.example" } }, 403],
      [{ headers: { host: "evil.example" } }, 403],
      [{ headers: { host: "127.0.0.1.evil.example" } }, 403],
      [{ headers: { host: "localhost.evil.example:80" } }, 403],
      [{ token: "" }, 401],
      [{ token: "wrong" }, 401],
      [{ token: `${tokens.alice}x` }, 401],
      [{ token: tokens.alice.slice(0, -1) }, 401],
      [
        { token: "", headers: { authorization: `Basic ${Buffer.from(`alice:${tokens.alice}`).toString("base64")}` } },
        401,
      ],
      [{ token: "", headers: { authorization: tokens.alice } }, 401],
      [{ token: "", path: `/mcp?token=${tokens.alice}` }, 401],
      [{ token: "", path: `/mcp?access_token=${tokens.alice}&auth=Bearer%20${tokens.alice}` }, 401],
      [{ token: "", headers: { cookie: `token=${tokens.alice}` } }, 401],
      [{ token: "", method: "GET", body: "" }, 401],
      [{ token: "", method: "OPTIONS", body: "" }, 401],
      [{ path: "//mcp" }, 404],
      [{ path: "/../mcp" }, 404],
      [{ path: "/MCP" }, 404],
      [{ path: "/__proto__" }, 404],
    ];
    for (const [what, status] of cases) {
      const reply = await send(server, what).catch((error) => ({ status: error.code, text: "", headers: {} }));
      expect(
        reply.status === status,
        `${q(what).replaceAll(tokens.alice, "TOKEN")} → ${reply.status}, expected ${status}`,
      );
      expect(!reply.text.includes(tokens.alice), "the token comes back");
      expect(reply.headers["access-control-allow-origin"] === undefined, "another origin is allowed to read");
    }
    for (const host of [
      "Host: \r\n",
      "",
      "Host: evil.example\r\nHost: 127.0.0.1\r\n",
      "Host: 127.0.0.1\r\nHost: evil.example\r\n",
      "Host: 127.0.0.1, evil.example\r\n",
    ]) {
      const rest = `Authorization: Bearer ${tokens.alice}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: ${initialize.length}\r\n\r\n${initialize}`;
      const state = rawSocket(server, `POST /mcp HTTP/1.1\r\n${host}${rest}`);
      await until("an answer", () => state.text !== "" || state.closed, 3_000);
      state.socket.destroy();
      // If there are two, Node takes the first.
      const fits = host.startsWith("Host: 127.0.0.1\r\n") || / 40[03] /.test(state.text);
      expect(fits, `${q(host)} → ${short(state.text, 60)}`);
    }
    expect(!server.stderr().includes(tokens.alice), "a token is in the log");
  },
  control: welcome,
};

const c40 = {
  id: "C40",
  class: "S5",
  what: "another tenant's session: every tool, resource and connection",
  async probe(stage) {
    const server = await stage.server("http");
    const secret = await stage.session(
      server,
      `secret = ${q(stage.flag)}\nopen("secret.txt", "w").write(secret)\nsecret`,
      { session_name: "shared-name" },
    );
    const bob = await server.client({ token: tokens.bob });
    const cell = secret.reply.execution.execution_id;
    const tools = {
      execute_code: { code: "secret" },
      wait: { execution_id: cell },
      interrupt: {},
      reset_session: {},
      close_session: { delete_files: true },
      list_files: {},
      read_file: { path: "secret.txt" },
      write_file: { path: "secret.txt", content: "x" },
      edit_file: { path: "secret.txt", old_text: "f", new_text: "x" },
      delete_file: { path: "secret.txt" },
      list_variables: {},
      inspect_variable: { name: "secret" },
      import_file: { host_path: "a" },
      export_file: { path: "secret.txt", host_path: "a" },
    };
    const unknown = "AAAAAAAAAAAAAAAA";
    for (const [tool, args] of Object.entries(tools)) {
      for (const id of [secret.id, "shared-name"]) {
        const theirs = await bob.call(tool, { session_id: id, ...args });
        const nobodys = await bob.call(tool, { session_id: unknown.slice(0, id.length), ...args });
        expect(!theirs.whole.includes(stage.flag), `${tool} gives bob alice's secret`);
        const same = theirs.whole.replaceAll(id, "ID") === nobodys.whole.replaceAll(unknown.slice(0, id.length), "ID");
        expect(
          theirs.isError && same,
          `${tool} tells a foreign id from an unknown one: ${short(theirs.text)} / ${short(nobodys.text)}`,
        );
      }
    }
    const read = (client, uri) =>
      client.raw.readResource({ uri }).then(
        (value) => q(value),
        (error) => `${error.code} ${error.message}`,
      );
    const foreign = await read(bob, `cell://${secret.id}/secret.txt`);
    const none = await read(bob, `cell://${unknown}/secret.txt`);
    expect(
      !foreign.includes(stage.flag) && foreign.replaceAll(secret.id, "ID") === none.replaceAll(unknown, "ID"),
      `resources tell: ${short(foreign)} / ${short(none)}`,
    );
    const lists = (await bob.call("list_sessions")).whole + q(await bob.raw.listResources());
    expect(!lists.includes(secret.id) && !lists.includes("shared-name"), "bob's lists show alice's session");
    const named = await bob.run("1", { session_name: "shared-name" });
    expect(named.status === "ok", `alice's name is taken for bob: ${short(named.text)}`);
    await bob.call("close_session", { session_id: named.session, delete_files: true });
    const alices = await server.client({ token: tokens.alice });
    const hijack = await send(server, {
      token: tokens.bob,
      headers: { "mcp-session-id": alices.mcpSession },
      body: q({ jsonrpc: "2.0", id: 5, method: "tools/list" }),
    });
    const nothing = await send(server, {
      token: tokens.bob,
      headers: { "mcp-session-id": "b5bd8a5e-0000-4000-8000-000000000000" },
      body: q({ jsonrpc: "2.0", id: 5, method: "tools/list" }),
    });
    expect(
      hijack.status === 404 && hijack.text === nothing.text,
      `a stolen connection: ${hijack.status} ${short(hijack.text)}`,
    );
    const left = await secret.run("secret");
    expect(left.text.includes(stage.flag), "bob changed alice's session");
    await bob.close();
    await alices.close();
  },
  async control(stage) {
    const server = await stage.server("http");
    const session = await stage.session(server, `open("secret.txt", "w").write(${q(stage.flag)})`);
    const reply = await session.call("read_file", { path: "secret.txt" });
    proves(reply.text.includes(stage.flag), short(reply.text));
    return "alice reads her own";
  },
};

const modern = (more = {}) => ({ "mcp-protocol-version": MODERN, "mcp-method": "tools/list", ...more });
const modernBody = (version = MODERN) =>
  q({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/list",
    params: {
      _meta: {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  });

const c41 = {
  id: "C41",
  class: "A2",
  what: "newest protocol: header against body, GET, DELETE, unknown version",
  async probe(stage) {
    const server = await stage.server("http");
    const mismatched = await send(server, { headers: modern({ "mcp-method": "tools/call" }), body: modernBody() });
    expect(
      mismatched.status === 400 && /-32020/.test(mismatched.text),
      `header ≠ body: ${mismatched.status} ${short(mismatched.text)}`,
    );
    const otherVersion = await send(server, {
      headers: modern({ "mcp-protocol-version": "2025-06-18" }),
      body: modernBody(),
    });
    expect(otherVersion.status === 400, `version in header ≠ body: ${otherVersion.status} ${short(otherVersion.text)}`);
    for (const method of ["GET", "DELETE", "PUT"]) {
      const reply = await send(server, { method, headers: modern(), body: "" });
      expect(reply.status === 405, `${method}: ${reply.status}`);
    }
    const future = await send(server, {
      headers: modern({ "mcp-protocol-version": "2999-01-01" }),
      body: modernBody("2999-01-01"),
    });
    expect(
      future.status === 400 && /-32022/.test(future.text),
      `unknown version: ${future.status} ${short(future.text)}`,
    );
  },
  async control(stage) {
    const reply = await send(await stage.server("http"), { headers: modern(), body: modernBody() });
    proves(reply.status === 200 && reply.text.includes("execute_code"), `${reply.status} ${short(reply.text)}`);
    return "the right headers are served";
  },
};

const slowCell =
  'import time\nopen("begun", "w").close()\nfor _ in range(25): time.sleep(0.1)\nopen("done", "w").close()\n"finished"';

/** A client starts a slow cell and is disconnected; returns the session. */
async function leaveInMidCell(stage, server, options) {
  const session = await stage.session(server);
  const client = await server.client({ token: tokens.alice, ...options });
  client.run(slowCell, { session_id: session.id }).catch(() => {});
  await until("the cell to begin", () => existsSync(join(session.workspace, "begun")));
  await client.close();
  return session;
}

const c42 = {
  id: "C42",
  class: "A2",
  what: "disconnect in mid-cell: newest protocol cancels, older ones go on",
  async probe(stage) {
    const server = await stage.server("http");
    const cancelled = await leaveInMidCell(stage, server, { modern: true });
    const kept = await leaveInMidCell(stage, server, { modern: false });
    const result = await kept.call("wait", { wait_s: 10 });
    expect(result.text.includes("finished"), `the older client's cell: ${short(result.text)}`);
    const { ms } = await timed(() => cancelled.run("1"));
    expect(!existsSync(join(cancelled.workspace, "done")), "the newest protocol's cell went on");
    expect(ms < 3_000, `the next cell waited ${Math.round(ms)} ms`);
  },
  async control(stage) {
    const session = await stage.session(await stage.server("http"));
    const reply = await session.run(slowCell);
    proves(reply.text.includes("finished") && existsSync(join(session.workspace, "done")), short(reply.text));
    return "without leaving, it finishes";
  },
};

/** The client does not read; a cell prints as fast as it can, and log messages are requested. */
async function unreadStdio(stage, use) {
  const server = await stage.ownServer((env) => startStdio({ args: ["--warm", "0", "--memory-mb", "256"], env }));
  await server.raw.setLoggingLevel("debug");
  const transport = server.raw.transport;
  const child = transport._process;
  if (!child?.stdout) throw new Error("the client's transport has changed: its process is not found");
  child.stdout.pause();
  const flood = server.run('for i in range(20_000): print("z" * 5_000)', { timeout_s: 8 }, { onprogress: () => {} });
  flood.catch(() => {});
  const { grownMb } = await peakOf(server, () => sleep(stage.times(6_000, 4_000)));
  child.stdout.resume();
  await use(await flood, grownMb);
  await server.call("close_session", { session_id: (await flood).session, delete_files: true });
}

const b27 = {
  id: "B27",
  class: "A2*",
  what: "flood with the client gone; flood with a client that does not read",
  async probe(stage) {
    await unreadStdio(stage, (reply, grownMb) => {
      protects(grownMb < MAX_PEAK_MB, `the client does not read, and the server grew by ${Math.round(grownMb)} MB`);
      expect(reply.whole.length < MAX_REPLY_BYTES * 1.4, "the reply is too long");
    });
    const server = await stage.ownServer((env) =>
      startHttp({ args: ["--warm", "0", "--memory-mb", "256", "--auth-token", `alice=${tokens.alice}`], env }),
    );
    const gone = await server.client({ token: tokens.alice });
    const leaving = new AbortController();
    const flood = gone.run('for i in range(40_000): print("z" * 5_000)', { timeout_s: 6 }, { signal: leaving.signal });
    flood.catch(() => {});
    const { grownMb } = await peakOf(server, async () => {
      await sleep(1_000);
      await gone.close();
      await sleep(stage.times(6_000, 3_000));
    });
    protects(grownMb < MAX_PEAK_MB, `the client is gone, and the server grew by ${Math.round(grownMb)} MB`);
    const list = await server.admin.call("list_sessions");
    for (const [id] of list.text.matchAll(/^[\w-]{16}/gm)) {
      if (id !== server.neighbour) await server.admin.call("close_session", { session_id: id, delete_files: true });
    }
  },
  async control() {
    const naive =
      "require('net').createServer((s) => { for (let i = 0; i < 300; i++) s.write(Buffer.alloc(1e6, 1)); }).listen(0, '127.0.0.1', function () { console.log(this.address().port); })";
    const child = spawn(process.execPath, ["-e", naive], { stdio: ["ignore", "pipe", "ignore"] });
    const [port] = await once(child.stdout, "data");
    const socket = connect(Number(port), "127.0.0.1");
    socket.pause();
    await sleep(1_500);
    const mb = rssMb(child.pid);
    child.kill("SIGKILL");
    socket.destroy();
    proves(mb > 250, `${Math.round(mb)} MB`);
    return `a writer without back-pressure holds ${Math.round(mb)} MB`;
  },
};

const b29 = {
  id: "B29",
  class: "A2*",
  what: "gzip bomb up; 1 TB sparse file and more than the disk down and up",
  async probe(stage) {
    const server = await stage.server("http");
    const before = rssMb(server.pid);
    const bomb = gzipSync(Buffer.alloc(200e6));
    const zipped = await send(server, { headers: { "content-encoding": "gzip" }, body: bomb });
    expect(zipped.status >= 400, `a gzip bomb is taken: ${zipped.status}`);
    expect(rssMb(server.pid) - before < 64, "a gzip bomb is unpacked");
    const session = await stage.session(server);
    await session.run(
      js('Deno.writeTextFileSync(W + "/sparse", ""); Deno.truncateSync(W + "/sparse", 1e12); return 1'),
    );
    for (const read of [
      () => session.call("read_file", { path: "sparse" }),
      () => server.admin.raw.readResource({ uri: `cell://${session.id}/sparse` }),
    ]) {
      const { value, ms } = await timed(() =>
        read().then(
          (reply) => reply.text ?? q(reply),
          (error) => error.message,
        ),
      );
      expect(/bytes|large/.test(value) && ms < 2_000, `a sparse file: ${short(value)}`);
    }
    await session.call("delete_file", { path: "sparse" });
    const content = "x".repeat(9_000_000);
    const replies = [];
    for (let turn = 0; turn < 10; turn += 1)
      replies.push(await session.call("write_file", { path: `f${turn}`, content }));
    expect(
      replies.at(-1).isError && /storage_full|too_large/.test(replies.at(-1).text),
      `more than the disk is taken: ${short(replies.at(-1).text)}`,
    );
  },
  async control() {
    const bytes = gunzipSync(gzipSync(Buffer.alloc(50e6))).length;
    proves(bytes === 50e6, `${bytes} bytes`);
    return "a naive gunzip gives 50 MB of 49 kB";
  },
};

export default [c37, c38, c39, c40, c41, c42, b27, b29];
