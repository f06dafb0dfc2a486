import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, request, type Server } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { isPrivateAddress } from "../../../src/isolation/network/addresses.ts";
import { readGreeting } from "../../../src/isolation/network/client-hello.ts";
import { parseNetRules } from "../../../src/isolation/network/net-rules.ts";
import { type NetProxy, openProxy } from "../../../src/isolation/network/proxy.ts";
import { createLog } from "../../../src/log.ts";
import { describeWithIsolations } from "../../support/isolations.ts";
import { testPython } from "../../support/pythons.ts";
import { forked, spawned } from "../jailed.ts";

const folder = mkdtempSync(join(tmpdir(), "cellwright-proxy-"));
const logged: string[] = [];
const log = createLog("warn", (line) => logged.push(line));
/** The addresses of names in this test, and which names were resolved. */
const names: Record<string, string[]> = {
  "named.example": ["127.0.0.1"],
  "rebound.example": ["127.0.0.1"],
  "metadata.example": ["169.254.169.254"],
};
const asked: string[] = [];
let web: Server;
let port: number;
let proxy: NetProxy;

/** Allowed by address, because the test's web server is on this machine: refusals are by name or port. */
beforeAll(async () => {
  web = createHttpServer((incoming, outgoing) => {
    if (incoming.url === "/away") outgoing.writeHead(302, { location: "http://elsewhere.example/" }).end();
    // More than all buffers on the way hold.
    else if (incoming.url === "/large") outgoing.end(Buffer.alloc(3_000_000));
    else outgoing.end(`${incoming.method} ${incoming.headers.host} ${incoming.url}`);
  });
  port = await listening(web);
  proxy = await open([`named.example:${port}`, "127.0.0.1"]);
});
afterAll(async () => {
  web.close();
  await proxy.dispose();
  rmSync(folder, { recursive: true, force: true });
});

function open(allow: string[]): Promise<NetProxy> {
  const resolve = async (host: string) => {
    asked.push(host);
    return names[host] ?? [host];
  };
  return openProxy({ folder: mkdtempSync(join(folder, "p-")), sessionId: "s1", allow, log, resolve });
}

function listening(server: Server | ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

/** A plain request through the proxy. */
function get(url: string, via: NetProxy = proxy, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; text: string; location: string | undefined }>((resolve, reject) => {
    const asking = request({ socketPath: via.socketPath, path: url, headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text, location: response.headers.location }),
      );
    });
    asking.on("error", reject).end();
  });
}

/** A tunnel through the proxy: the answer, and the connection. */
function tunnel(authority: string, via: NetProxy = proxy): Promise<{ status: number; socket: Socket }> {
  return new Promise((resolve) => {
    const socket = connect(via.socketPath);
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    socket.once("data", (data) => resolve({ status: Number(String(data).split(" ")[1]), socket }));
    socket.on("error", () => {});
  });
}

describe("plain requests", () => {
  test("to a host that is named get there, and with its own name as Host", async () => {
    const answer = await get(`http://named.example:${port}/path?x=1`, proxy, { host: "other.example" });
    expect(answer).toMatchObject({ status: 200, text: `GET named.example:${port} /path?x=1` });
  });

  test("to another host are refused before its name is looked up, and that is logged", async () => {
    const answer = await get("http://secret-data.attacker.example/");
    expect(answer).toMatchObject({ status: 403, text: expect.stringContaining("attacker.example is not allowed") });
    expect(asked).not.toContain("secret-data.attacker.example");
    expect(logged.join("")).toContain("network refused: secret-data.attacker.example is not allowed");
  });

  test("to another port are refused", async () => {
    expect(await get("http://named.example:22/")).toMatchObject({ status: 403 });
  });

  test("are judged each by itself: a redirect does not lead out", async () => {
    const { status, location } = await get(`http://named.example:${port}/away`);
    expect(status).toBe(302);
    expect(await get(location ?? "")).toMatchObject({ status: 403 });
  });

  test("are answered with 502 when what comes back is not HTTP, and the next one is served", async () => {
    for (const status of ["000", "099", "1", "abc"]) {
      const odd = createServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => socket.end(`HTTP/1.1 ${status} Odd\r\nContent-Length: 0\r\n\r\n`));
      });
      const oddPort = await listening(odd);
      const via = await open([`named.example:${oddPort}`, "127.0.0.1"]);
      expect(await get(`http://named.example:${oddPort}/`, via)).toMatchObject({ status: 502 });
      await via.dispose();
      odd.close();
    }
    expect(await get(`http://named.example:${port}/`)).toMatchObject({ status: 200 });
  });

  test("that are not for a proxy are refused", async () => {
    expect(await get("/path")).toMatchObject({ status: 403 });
  });
});

describe("addresses", () => {
  test("that are private are refused, however they are written, unless they are named", async () => {
    const open1 = await open(["*", `*:${port}`]);
    for (const host of [
      "127.0.0.1",
      "localhost",
      "2130706433",
      "0x7f.1",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "169.254.169.254",
    ]) {
      expect({ host, ...(await get(`http://${host}:${port}/`, open1)) }).toMatchObject({ host, status: 403 });
    }
    for (const name of ["rebound.example", "metadata.example"]) {
      expect((await get(`http://${name}/`, open1)).text).toContain("not on the public internet");
    }
    await open1.dispose();
    const open2 = await open(["rebound.example", `rebound.example:${port}`, "127.0.0.0/8"]);
    expect(await get(`http://rebound.example:${port}/`, open2)).toMatchObject({ status: 200 });
    expect((await tunnel(`127.0.0.1:${port}`, open2)).status).toBe(403);
    await open2.dispose();
  });

  test("with a port allow requests to the address, not to names that resolve to it", async () => {
    const via = await open([`127.0.0.1:${port}`, `rebound.example:${port}`, `*:${port}`, "localhost"]);
    expect(await get(`http://127.0.0.1:${port}/`, via)).toMatchObject({ status: 200 });
    for (const host of ["rebound.example", "any.example", "127.0.0.2"]) {
      names[host] ??= ["127.0.0.1"];
      const answer = await get(`http://${host}:${port}/`, via);
      expect({ host, ...answer }).toMatchObject({
        host,
        status: 403,
        text: expect.stringContaining("not on the public"),
      });
    }
    await via.dispose();
  });

  test("without a port, and networks, are where names may lead, but not every name", async () => {
    const via = await open([`rebound.example:${port}`, `*:${port}`, "127.0.0.0/8"]);
    expect(await get(`http://rebound.example:${port}/`, via)).toMatchObject({ status: 200 });
    names["any.example"] = ["127.0.0.1"];
    expect(await get(`http://any.example:${port}/`, via)).toMatchObject({ status: 403 });
    await via.dispose();
  });

  test("of the public internet are distinguished from all others", () => {
    const inner = ["10.1.2.3", "100.64.0.1", "172.31.0.1", "192.168.1.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"];
    const inner6 = [
      "::",
      "::1",
      "fe80::1%eth0",
      "fd00:ec2::254",
      "::ffff:10.0.0.1",
      "64:ff9b::a00:1",
      "2002:a00:1::",
      "ff02::1",
    ];
    for (const address of [...inner, ...inner6])
      expect({ address, is: isPrivateAddress(address) }).toEqual({ address, is: true });
    for (const address of ["1.1.1.1", "93.184.216.34", "2606:4700::1111"])
      expect(isPrivateAddress(address)).toBe(false);
  });
});

describe("tunnels", () => {
  test("carry what is said in them, both ways, to a port that is named", async () => {
    const echo = createServer((socket) => socket.pipe(socket));
    const echoPort = await listening(echo);
    const via = await open([`named.example:${echoPort}`, "127.0.0.1"]);
    const { status, socket } = await tunnel(`named.example:${echoPort}`, via);
    expect(status).toBe(200);
    const answer = new Promise((resolve) => socket.once("data", (data) => resolve(String(data))));
    socket.write("hello");
    expect(await answer).toBe("hello");
    socket.destroy();
    await via.dispose();
    echo.close();
  });

  test("to another host are refused before its name is looked up", async () => {
    expect((await tunnel("tunnel.attacker.example:443")).status).toBe(403);
    expect(asked).not.toContain("tunnel.attacker.example");
    for (const authority of ["named.example", "user@named.example:443", "named.example:443/x", "named.example:0"]) {
      expect({ authority, status: (await tunnel(authority)).status }).toEqual({ authority, status: 403 });
    }
  });

  test("are closed when the name said in TLS is another one", async () => {
    const greetings: string[] = [];
    const server = createServer((socket) => socket.on("data", (data) => void greetings.push(name(data))));
    const serverPort = await listening(server);
    const via = await open([`named.example:${serverPort}`, "127.0.0.1"]);
    for (const servername of ["named.example", "hidden.example"]) {
      const { socket } = await tunnel(`named.example:${serverPort}`, via);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      const tls = connectTls({ socket, servername, rejectUnauthorized: false }).on("error", () => {});
      if (servername === "named.example") await expect.poll(() => greetings).toEqual(["named.example"]);
      else await closed;
      tls.destroy();
    }
    expect(greetings).toEqual(["named.example"]);
    expect(logged.join("")).toContain("the TLS server name of a connection to named.example is another host");
    await via.dispose();
    server.close();
  });

  test("are closed when TLS to a host with a name says none", async () => {
    const reached: string[] = [];
    const server = createServer((socket) => socket.on("data", (data) => void reached.push(name(data))));
    const serverPort = await listening(server);
    const via = await open([`named.example:${serverPort}`, "127.0.0.1", `127.0.0.1:${serverPort}`]);
    const { socket } = await tunnel(`named.example:${serverPort}`, via);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    connectTls({ socket, servername: "", rejectUnauthorized: false }).on("error", () => {});
    await closed;
    expect(reached).toEqual([]);
    const direct = await tunnel(`127.0.0.1:${serverPort}`, via);
    connectTls({ socket: direct.socket, servername: "", rejectUnauthorized: false }).on("error", () => {});
    await expect.poll(() => reached).toEqual(["none"]);
    await via.dispose();
    server.close();
  });

  test("to port 80 are refused: a second request in them could be for another host", async () => {
    const via = await open(["named.example", "127.0.0.1"]);
    expect((await tunnel("named.example:80", via)).status).toBe(403);
    expect(logged.join("")).toContain("CONNECT to port 80 of named.example is not supported");
    await via.dispose();
  });

  function name(data: Uint8Array): string {
    const greeting = readGreeting(data);
    return greeting.kind === "tls" ? (greeting.serverName ?? "none") : greeting.kind;
  }
});

describe("a session", () => {
  test("has 64 connections at once; one more is refused with the reason, and accepted again when one ends", async () => {
    const echo = createServer((socket) => socket.pipe(socket));
    const echoPort = await listening(echo);
    const via = await open([`named.example:${echoPort}`, `named.example:${port}`, "127.0.0.1"]);
    const held = await Promise.all(Array.from({ length: 64 }, () => tunnel(`named.example:${echoPort}`, via)));
    expect(held.every(({ status }) => status === 200)).toBe(true);
    expect((await tunnel(`named.example:${echoPort}`, via)).status).toBe(503);
    const full = await get(`http://named.example:${port}/`, via);
    expect(full).toMatchObject({
      status: 503,
      text: expect.stringContaining("this session has 64 open connections"),
    });
    // Another session's proxy is not affected.
    expect(await get(`http://named.example:${port}/`)).toMatchObject({ status: 200 });
    held[0]?.socket.destroy();
    await expect.poll(async () => (await get(`http://named.example:${port}/`, via)).status).toBe(200);
    for (const { socket } of held) socket.destroy();
    await via.dispose();
    echo.close();
  });

  test("has one request at a time on a connection, and no more connections outside than it has to the proxy", async () => {
    const outside = new Set<Socket>();
    const silent = createServer((socket) => outside.add(socket));
    const silentPort = await listening(silent);
    const via = await open([`named.example:${silentPort}`, `named.example:${port}`, "127.0.0.1"]);
    const ask = (to: number) => `GET http://named.example:${to}/ HTTP/1.1\r\nHost: x\r\n\r\n`;
    for (const more of [ask(silentPort), `CONNECT named.example:${silentPort} HTTP/1.1\r\n\r\n`]) {
      const hasty = connect(via.socketPath).resume();
      const closed = new Promise((resolve) => hasty.once("close", resolve));
      hasty.write(ask(silentPort) + more.repeat(500));
      await closed;
    }
    expect(outside.size).toBeLessThanOrEqual(2);

    const patient = connect(via.socketPath);
    for (let turn = 0; turn < 20; turn += 1) {
      patient.write(ask(port));
      const answer = await new Promise<Buffer>((resolve) => patient.once("data", resolve));
      expect(String(answer)).toContain("200 OK");
    }
    patient.destroy();
    for (const socket of outside) socket.destroy();
    await via.dispose();
    silent.close();
  });

  test("is logged once for each host, with what became of it", async () => {
    const lines: string[] = [];
    const resolve = async () => ["127.0.0.1"];
    const own = createLog("info", (line) => lines.push(line.trim()));
    const allow = [`named.example:${port}`, "127.0.0.1"];
    const via = await openProxy({ folder: mkdtempSync(join(folder, "p-")), sessionId: "s7", allow, log: own, resolve });
    for (let turn = 0; turn < 3; turn += 1) {
      await get(`http://named.example:${port}/${turn}`, via);
      await get("http://other.example/", via);
    }
    expect(lines).toEqual([
      `cellwright info: session s7: network allowed: named.example:${port}`,
      "cellwright warn: session s7: network refused: other.example is not allowed",
    ]);
    for (let host = 0; host < 300; host += 1) await get(`http://host-${host}.example/`, via);
    expect(lines.length).toBeLessThan(210);
    expect(lines.at(-1)).toContain("further ones are not logged");
    await via.dispose();
  });
});

describe("rules", () => {
  const rules = parseNetRules([
    "example.org",
    "*.example.net",
    "host.example:8443",
    "10.1.0.0/16",
    "[::1]:80",
    "Upper.Example.",
  ]);
  test.each([
    ["example.org", 443, true],
    ["example.org", 22, false],
    ["www.example.org", 443, false],
    ["notexample.org", 443, false],
    ["a.b.example.net", 80, true],
    ["example.net", 443, false],
    ["evilexample.net", 443, false],
    ["host.example", 8443, true],
    ["host.example", 443, false],
    ["10.1.2.3", 443, true],
    ["10.2.2.3", 443, false],
    ["::1", 80, true],
    ["upper.example", 443, true],
  ])("%s:%i", (host, wantedPort, isAllowed) => {
    expect(rules.refuseHost(host, wantedPort) === undefined).toBe(isAllowed);
  });

  test("a rule that is none is named", () => {
    for (const wrong of ["http://example.org", "exa mple.org", "10.0.0.0/99", ""]) {
      expect(() => parseNetRules([wrong])).toThrow(/not a host|neither|not a network/);
    }
  });
});

describe("a first message", () => {
  test("is read in pieces, and nonsense in it is no crash", async () => {
    const server = createServer();
    const serverPort = await listening(server);
    const hello = new Promise<Buffer>((resolve) => server.once("connection", (socket) => socket.once("data", resolve)));
    const tls = connectTls({ port: serverPort, host: "127.0.0.1", servername: "some.example" }).on("error", () => {});
    const bytes = await hello;
    tls.destroy();
    server.close();
    expect(readGreeting(bytes)).toEqual({ kind: "tls", serverName: "some.example" });
    for (let length = 0; length < bytes.length; length += 1) {
      expect(readGreeting(bytes.subarray(0, length)).kind).toBe("incomplete");
    }
    for (let at = 0; at < bytes.length; at += 1) {
      const broken = Buffer.from(bytes);
      broken[at] = 255;
      expect(["tls", "other", "incomplete"]).toContain(readGreeting(broken).kind);
    }
    expect(readGreeting(Buffer.from("GET / HTTP/1.1"))).toEqual({ kind: "other" });
  });

  test("with several names has none of them", () => {
    const sized = (bytes: number, content: Buffer) => {
      const length = Buffer.alloc(bytes);
      length.writeUIntBE(content.length, 0, bytes);
      return Buffer.concat([length, content]);
    };
    const list = (...names: string[]) => {
      const entries = names.map((name) => Buffer.concat([Buffer.of(0), sized(2, Buffer.from(name))]));
      return Buffer.concat([Buffer.of(0, 0), sized(2, sized(2, Buffer.concat(entries)))]);
    };
    const greeting = (...extensions: Buffer[]) => {
      const start = [Buffer.alloc(34), sized(1, Buffer.alloc(0)), sized(2, Buffer.alloc(2)), sized(1, Buffer.alloc(1))];
      const hello = Buffer.concat([...start, sized(2, Buffer.concat(extensions))]);
      return Buffer.concat([Buffer.of(22, 3, 1), sized(2, Buffer.concat([Buffer.of(1), sized(3, hello)]))]);
    };
    expect(readGreeting(greeting(list("a.example")))).toEqual({ kind: "tls", serverName: "a.example" });
    const both = { kind: "tls", serverName: "a.example b.example" };
    expect(readGreeting(greeting(list("a.example", "b.example")))).toEqual(both);
    expect(readGreeting(greeting(list("a.example"), list("b.example")))).toEqual(both);
    expect(readGreeting(greeting())).toEqual({ kind: "tls" });
  });
});

describeWithIsolations("code in a jail with allowed hosts", (isolation) => {
  const python = testPython("debian");
  const script = join(import.meta.dirname, "fetch.py");

  test.each([forked, spawned])("gets there through the proxy and by no other way ($name)", async (way) => {
    const jail = await localJail({
      isolation,
      ...(isolation.tier === "landlock" && { tmpDir: folder }),
      environmentPaths: [],
      python,
      supportPaths: [import.meta.dirname],
      workspaceDir: folder,
      network: { proxyDir: join(proxy.socketPath, "..") },
    });
    const ran = await way.run(script, [String(port)], { python, jail, folder });
    expect(ran.stderr).toBe("");
    expect(JSON.parse(ran.stdout)).toEqual({
      allowed: `GET named.example:${port} /`,
      many: 20,
      large: 3_000_000,
      other: 403,
      direct: "refused",
      lookup: "refused",
      replace: "refused",
      // Without namespaces it would be a port of the machine.
      port: isolation.tier === "landlock" ? "refused" : "reached",
      own: "reached",
      "no socket": -1,
    });
  });
});
