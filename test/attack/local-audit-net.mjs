// Attacks around the jail for local kernels: the allowed network, other sandboxes of a pool, indexes, paths.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { PROXY_PORT } from "../../dist/isolation/jail.js";
import { openProxy } from "../../dist/isolation/network/proxy.js";
import { findPlaces } from "../../dist/kernels/local/packages/places.js";
import { createLog } from "../../dist/log.js";
import { expect, portOf, protects, proves, randomFlag, short } from "./case.mjs";
import {
  environment,
  forBoth,
  forPython,
  inPython,
  LIMITS,
  LOCAL,
  sessionIn,
  startLocal,
  tryAll,
} from "./local-stage.mjs";
import { programPath, startHttp } from "./server.mjs";
import { hasNamespaces, JAILED } from "./tier.mjs";

const q = JSON.stringify;
/** Beside the environment of the tests: `scripts/setup.mjs test` puts it there. */
const uv = join(environment, "../uv/bin/uv");
const LIMITED = [...JAILED, ...LIMITS];
/** `--allow-net=host` does not work as the control: Landlock inside namespaces still scopes abstract sockets. */
const UNJAILED = ["--jail", "none"];
const needsNetwork = (stage) =>
  stage.privateNetwork ? undefined : "needs a network namespace of its own (unshare --net)";

/** A raw request through the proxy. */
const viaProxy = (target, method = "GET") =>
  `out = ask(("127.0.0.1", 3128), text=(${q(`${method} ${target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)}).encode())`;

const straight = ({ port, abstractName }) => ({
  "straight to loopback": `out = ask(("127.0.0.1", ${port}))`,
  "straight to metadata": `out = ask(("169.254.169.254", ${port}))`,
  "an abstract socket": `name = b"\\0" + ${q(abstractName)}.encode()\nfor address in (name, name.ljust(108, b"\\0")):\n    try: out += ask(address, socket.AF_UNIX)\n    except OSError: pass`,
});

const s8 = forBoth((language) => ({
  id: "S8",
  class: "S5",
  what: "--allow-net: the machine's own ports, abstract sockets, metadata and private networks",
  needs: needsNetwork,
  async probe(stage) {
    const server = await stage.ownServer((env) => startLocal({ args: [...LIMITED, "--allow-net"], env }));
    const session = await sessionIn(stage, server, language);
    const { port } = stage.canary;
    const hosts = [
      ...["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "10.0.0.1"],
      ...["169.254.169.254", "192.168.0.1", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "100.64.0.1"],
    ];
    const tries = {
      ...straight(stage.canary),
      ...Object.fromEntries(hosts.map((host) => [`${host}, by the proxy`, viaProxy(`http://${host}:${port}/`)])),
      ...Object.fromEntries(hosts.map((host) => [`${host}, port 80`, viaProxy(`http://${host}/`)])),
      ...Object.fromEntries(hosts.map((host) => [`${host}, tunnel`, viaProxy(`${host}:443`, "CONNECT")])),
    };
    const { told, isComplete } = await tryAll(session, tries);
    expect(isComplete, "the tries ended early");
    for (const [name, text] of Object.entries(told))
      expect(!text.includes(stage.flag) && !text.includes("200 "), `${name}: ${short(text, 200)}`);
    expect(told["127.0.0.1, port 80"]?.includes("public internet"), `no reason is given: ${short(q(told))}`);
    return `${Object.keys(tries).length} tries refused`;
  },
  async control(stage) {
    const server = await stage.ownServer((env) => startLocal({ args: [...UNJAILED, ...LIMITS], env }));
    const session = await sessionIn(stage, server, language);
    const { told } = await tryAll(session, straight(stage.canary));
    const open = Object.entries(told).filter(([, text]) => text.includes(stage.flag));
    proves(open.length === 3, short(q(told), 300));
    return `${UNJAILED.join(" ")} reaches all of them`;
  },
}));

const s12 = forPython({
  id: "S12",
  class: "S5",
  what: "code of one sandbox of a pool reads the folders of another",
  async probe(stage) {
    const { said, flag } = await this.readFrom(stage, JAILED);
    expect(!said.includes(flag), `it reads: ${short(said)}`);
    proves(said.includes("beside it"), `--allow-read shows nothing: ${short(said)}`);
  },
  async control(stage) {
    const { said, flag } = await this.readFrom(stage, ["--jail", "none"]);
    proves(said.includes(flag), short(said));
    return "without a jail it reads them";
  },
  /** What a cell in the only sandbox of a pool finds in the data folder of a sibling. */
  async readFrom(stage, more) {
    const flag = randomFlag();
    const above = mkdtempSync(join(stage.folder, "pool-"));
    const other = join(above, "data/pool/1/sessions/s/run/sockets");
    mkdirSync(other, { recursive: true });
    writeFileSync(join(other, "connection.json"), flag);
    writeFileSync(join(above, "beside.txt"), "beside it");
    const port = await freePort();
    const args = ["pool", "--ports", String(port), ...LOCAL, ...LIMITS, ...more];
    const child = spawn(
      process.execPath,
      [programPath, ...args, "--allow-read", above, "--data-dir", join(above, "data")],
      { env: { PATH: process.env.PATH, HOME: process.env.HOME }, stdio: ["ignore", "pipe", "inherit"] },
    );
    stage.after(async () => {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
    });
    for await (const chunk of child.stdout) if (String(chunk).includes("Ctrl-C")) break;
    const token = readFileSync(join(above, "data/pool-token"), "utf8").trim();
    const code = `import os, subprocess
def look(path):
    try: return open(path).read()
    except OSError as error: return str(error)
print(look(${q(join(other, "connection.json"))}), look(${q(join(above, "data/pool-token"))}), look(${q(join(above, "beside.txt"))}))
print(subprocess.run(["find", ${q(above)}, "-type", "f", "-exec", "cat", "{}", "+"], capture_output=True, text=True).stdout)`;
    const response = await fetch(`http://127.0.0.1:${port}/jupyter_sandbox`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: q({ code, timeout: 60 }),
    });
    const said = await response.text();
    expect(more.includes("none") || !said.includes(token), "it reads the token of the pool");
    return { said, flag };
  },
});

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = portOf(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function website(stage) {
  const server = createServer((_, response) => response.end("from the site")).listen(0, "127.0.0.1");
  await once(server, "listening");
  stage.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return portOf(server);
}

const HELD = 200;
/** Opens and keeps as many connections to its proxy as a session can, as directly as the tier allows. */
const way = hasNamespaces
  ? { family: "AF_UNIX", address: '"/run/proxy/socket"' }
  : { family: "AF_INET", address: `("127.0.0.1", ${PROXY_PORT})` };
const hoard = `import socket
held, told = [], ""
for turn in range(${HELD}):
    connection = socket.socket(socket.${way.family})
    connection.settimeout(3)
    try:
        connection.connect(${way.address})
        connection.sendall(b"GET http://127.0.0.1:PORT/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        told += connection.recv(4096).decode()
    except OSError as error:
        told += repr(error)
    held.append(connection)
print(told.count("from the site"), "answers;", told.count("open connections, which is the limit"), "refusals")`;

const a7 = forPython({
  id: "A7",
  class: "A2*",
  what: "one session holds all connections of the proxy",
  async probe(stage) {
    const port = await website(stage);
    const args = [...LIMITED, `--allow-net=127.0.0.1:${port}`];
    const server = await stage.ownServer((env) => startLocal({ args, env }));
    const [greedy, other] = [await sessionIn(stage, server, "python"), await sessionIn(stage, server, "python")];
    const { text } = await greedy.run(hoard.replace("PORT", String(port)), { timeout_s: 60 });
    const [, answers, refusals] = /(\d+) answers; (\d+) refusals/.exec(text) ?? [];
    expect(answers === "64" && Number(refusals) > 0, `the session itself: ${short(text)}`);
    const reply = await other.run(inPython("python", `${viaProxy(`http://127.0.0.1:${port}/`)}\nprint(out)`));
    protects(reply.text.includes("from the site"), `the other session: ${short(reply.text)}`);
    return `${answers} answers, ${refusals} refusals with a reason`;
  },
  async control(stage) {
    const port = await website(stage);
    const folder = mkdtempSync(join(stage.folder, "proxy-"));
    const shared = await openProxy({
      folder,
      sessionId: "all",
      allow: [`127.0.0.1:${port}`],
      log: createLog("silent"),
    });
    stage.after(() => shared.dispose());
    const ask = () =>
      new Promise((resolve) => {
        const socket = connect(shared.socketPath);
        socket.write(`GET http://127.0.0.1:${port}/ HTTP/1.1\r\nhost: x\r\n\r\n`);
        socket.once("data", (data) => resolve(String(data)));
        socket.once("error", (error) => resolve(error.message));
        stage.after(() => void socket.destroy());
      });
    for (let turn = 0; turn < 64; turn += 1) proves((await ask()).includes("200 OK"), "it is full before that");
    proves((await ask()).includes("503"), "it is not full");
    return "one proxy for two sessions is full for both";
  },
});

const h7 = forPython({
  id: "H7",
  class: "H1",
  what: "network rules: an address for every name, CONNECT to port 80",
  needs: needsNetwork,
  async probe(stage) {
    const { session, port } = await this.open(stage);
    const { told } = await tryAll(session, {
      "a name that leads there": viaProxy(`http://localhost:${port}/`),
      "the address on another port": viaProxy("http://127.0.0.1:80/"),
      "CONNECT to port 80": viaProxy("10.0.0.1:80", "CONNECT"),
    });
    for (const [name, text] of Object.entries(told))
      expect(/403|not allowed|judged/.test(text) && !text.includes(stage.flag), `${name}: ${short(text)}`);
  },
  async control(stage) {
    const { session, port } = await this.open(stage);
    const { told } = await tryAll(session, {
      address: viaProxy(`http://127.0.0.1:${port}/`),
      plain: viaProxy("http://10.0.0.1:80/"),
    });
    proves(told.address.includes("from the site") && told.plain.includes(stage.flag), short(q(told)));
    return "what the rules name is reached";
  },
  async open(stage) {
    const port = await website(stage);
    // At 10.0.0.1:80 the canary listens.
    const args = [...LIMITED, `--allow-net=*,*:${port},127.0.0.1:${port},10.0.0.1`];
    const server = await stage.ownServer((env) => startLocal({ args, env }));
    return { session: await sessionIn(stage, server, "python"), port };
  },
});

const h10 = forPython({
  id: "H10",
  class: "H1",
  what: "a newer version of a company's package on a public index",
  needs: () => (spawnSync(uv, ["--version"]).status === 0 ? undefined : "there is no uv here"),
  async probe(stage) {
    const { chosen, strategy } = await this.choose(stage, {});
    expect(chosen === "1.0", `with ${strategy} uv takes ${chosen}`);
  },
  async control(stage) {
    const { chosen } = await this.choose(stage, { UV_INDEX_STRATEGY: "unsafe-best-match" });
    proves(chosen === "9.9", `uv takes ${chosen}`);
    return "the best of all indexes is the attacker's";
  },
  /** What uv would install if the company's index has 1.0 and the public one 9.9. */
  async choose(stage, env) {
    const serve = async (version) => {
      const file = `corp_tool-${version}-py3-none-any.whl`;
      const server = createServer((request, response) => {
        if (request.url.endsWith(".metadata")) {
          return response.end(`Metadata-Version: 2.1\nName: corp-tool\nVersion: ${version}\n`);
        }
        response.setHeader("content-type", "text/html");
        response.end(`<a href="/${file}" data-core-metadata="true">${file}</a>`);
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      stage.after(() => {
        server.closeAllConnections();
        server.close();
      });
      return `http://127.0.0.1:${portOf(server)}/simple/`;
    };
    const own = { PIP_INDEX_URL: await serve("9.9"), PIP_EXTRA_INDEX_URL: await serve("1.0"), ...env };
    const { indexes, strategy } = await findPlaces({ env: own }, []);
    const [main, extra] = indexes.map(({ url }) => url);
    const words = ["pip", "install", "--dry-run", "--system", "--break-system-packages", "--no-config", "--no-cache"];
    const places = ["--default-index", main, "--index", extra, "--index-strategy", strategy];
    const child = spawn(uv, [...words, ...places, "corp-tool"], {
      env: { PATH: process.env.PATH, HOME: stage.folder },
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        said += chunk;
      });
    }
    await once(child, "close");
    return { strategy, chosen: /corp-tool==(\S+)/.exec(said)?.[1] ?? short(said) };
  },
});

const h12 = forPython({
  id: "H12",
  class: "H1",
  what: "list_environments over HTTP: paths of the machine",
  async probe(stage) {
    const server = await startHttp({ args: [...LOCAL, ...LIMITS] });
    stage.after(() => server.stop());
    const token = readFileSync(join(server.dataDir, "auth-token"), "utf8").trim();
    const { whole, text } = await (await server.client({ token })).call("list_environments");
    proves(text.includes("(default)"), short(text));
    expect(!/[^\w]\/(\w|\.)/.test(text) && !whole.includes(process.env.HOME ?? "/root"), `it shows: ${short(text)}`);
  },
  async control(stage) {
    const { text } = await (await stage.server("auto")).call("list_environments");
    proves(text.includes(LOCAL.at(-1)), short(text));
    return "over stdio they are shown";
  },
});

export default [...s8, ...s12, ...a7, ...h7, ...h10, ...h12];
