// Attacks around the jail, over HTTP and on package indexes: tokens, pages of other servers, pool names, terminals.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createDownloads } from "../../dist/kernels/wasm/packages/build/downloads.js";
import { findSources } from "../../dist/kernels/wasm/sources.js";
import { createLog } from "../../dist/log.js";
import { findHostFile } from "../../dist/toolsets/jupyter-interpreter-mcp/upload.js";
import { expect, portOf, proves, randomFlag, short } from "./case.mjs";
import { makeDataDir, programPath, startHttp, startStdio } from "./server.mjs";
import { tokens } from "./stage.mjs";

const q = JSON.stringify;
const json = { "content-type": "application/json" };
const bearer = (token) => (token === undefined ? {} : { authorization: `Bearer ${token}` });

async function post(server, path, body, headers = json) {
  const response = await fetch(new URL(path, server.url), { method: "POST", headers, body: q(body) });
  return { status: response.status, text: await response.text() };
}

const runs = (server, code, headers, session_id = "s") =>
  post(server, "/jupyter_sandbox", { session_id, code, timeout: 60 }, { ...json, ...headers });

/** A separate server, without the tenants that `ownServer` expects. */
async function serve(stage, { args = [], env = {} } = {}) {
  const server = await startHttp({ args: ["--warm", "0", ...args], env });
  stage.after(() => server.stop());
  return server;
}

const canBeTwoUsers = spawnSync("true", { uid: 4242, gid: 4242 }).status === 0;
const needsTwoUsers = () => (canBeTwoUsers ? undefined : "needs the right to be two users");

const s2 = {
  id: "S2",
  class: "S5",
  what: "a default server called by another local user, without a token or with the one it could read",
  async probe(stage) {
    const server = await serve(stage);
    const initialize = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
    for (const headers of [{}, bearer("x".repeat(43)), bearer("undefined")]) {
      for (const path of ["/mcp", "/jupyter_sandbox", "/clear_session"]) {
        const { status } = await post(server, path, initialize, { ...json, ...headers });
        expect(status === 401, `${path} answers ${status}`);
      }
    }
    const file = join(server.dataDir, "auth-token");
    const token = readFileSync(file, "utf8").trim();
    expect(!server.stderr().includes(token), "the token is in the log");
    for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const line = existsSync(`/proc/${id}/cmdline`) ? readQuietly(`/proc/${id}/cmdline`) : "";
      expect(!line.includes(token), "the token is on a command line");
    }
    if (canBeTwoUsers) {
      const read = spawnSync("cat", [file], { uid: 4242, gid: 4242, encoding: "utf8" });
      expect(read.status !== 0 && !read.stdout.includes(token), "another user reads the token");
    }
    const twin = await runs(server, "6 * 7", bearer(token));
    proves(twin.status === 200 && twin.text.includes("42"), `with its token: ${twin.status}`);
  },
  async control(stage) {
    const { status, text } = await runs(await serve(stage, { args: ["--insecure"] }), "6 * 7");
    proves(status === 200 && text.includes("42"), `${status} ${short(text)}`);
    return "with --insecure anybody runs code";
  },
};

const s11 = {
  id: "S11",
  class: "S5",
  what: "two tenants with the same session name in a pool that knows sessions by their names",
  async probe(stage) {
    const { front } = await this.pool(stage);
    const secret = randomFlag();
    const as = (tenant, code) => runs(front, code, bearer(tokens[tenant]), "shared");
    proves((await as("alice", `secret = ${q(secret)}; secret`)).text.includes(secret), "alice has no session");
    const bob = await as("bob", "secret");
    expect(bob.text.includes("NameError") && !bob.text.includes(secret), `bob reads: ${short(bob.text)}`);
    await as("bob", "secret = 'of bob'");
    expect((await as("alice", "secret")).text.includes(secret), "bob's call changed alice's session");
  },
  async control(stage) {
    const { sandbox, token } = await this.pool(stage);
    const secret = randomFlag();
    await runs(sandbox, `secret = ${q(secret)}`, bearer(token), "shared");
    const { text } = await runs(sandbox, "secret", bearer(token), "shared");
    proves(text.includes(secret), short(text));
    return "a sandbox itself has one session for one name";
  },
  async pool(stage) {
    const token = randomFlag();
    const sandbox = await serve(stage, { env: { CELLWRIGHT_AUTH_TOKEN: token } });
    const front = await serve(stage, {
      args: ["--toolset", "code-interpreter-lb", "--pool-url", new URL(sandbox.url).origin],
      env: {
        CELLWRIGHT_POOL_TOKEN: token,
        CELLWRIGHT_AUTH_TOKEN: Object.entries(tokens)
          .map((pair) => pair.join("="))
          .join(","),
      },
    });
    return { sandbox, front, token };
  },
};

const s13 = {
  id: "S13",
  class: "S5",
  what: "upload_file_path of a served toolset: files below the server's working directory",
  async probe() {
    for (const path of [join(process.cwd(), "package.json"), "/etc/passwd", "/proc/self/environ"]) {
      const find = findHostFile(path, { own: { allowedDir: [], allowAll: false }, local: false });
      const found = await find.catch((error) => ({ refusal: error.message }));
      expect(typeof found === "object" && found.refusal.includes("--allowed-dir"), `${path}: ${q(found)}`);
    }
  },
  async control() {
    const path = join(process.cwd(), "package.json");
    const found = await findHostFile(path, { own: { allowedDir: [], allowAll: false }, local: true });
    proves(found === path, q(found));
    return "a client on this machine may";
  },
};

const h1 = {
  id: "H1",
  class: "H1",
  what: "a page of another server on loopback posts text/plain, or JSON, without a token",
  async probe(stage) {
    const server = await serve(stage, { args: ["--insecure"] });
    const body = { session_id: "s", code: "6 * 7", timeout: 60 };
    for (const path of ["/jupyter_sandbox", "/clear_session"]) {
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
        const { status } = await post(server, path, body, { "content-type": type });
        expect(status === 415, `${path} takes ${type}: ${status}`);
      }
      for (const origin of ["http://localhost:3000", "http://127.0.0.1:1", "null"]) {
        const { status } = await post(server, path, body, { ...json, origin });
        expect(status === 403, `${path} answers a page of ${origin}: ${status}`);
      }
    }
    const blind = await post(server, "/mcp", body, { "content-type": "text/plain", origin: "http://localhost:3000" });
    expect(blind.status >= 400, `/mcp takes text/plain: ${blind.status}`);
  },
  async control(stage) {
    const server = await serve(stage, { args: ["--insecure"] });
    const { text } = await runs(server, "6 * 7");
    proves(text.includes("42"), short(text));
    return "the same as JSON, from no page, runs";
  },
};

const h6 = {
  id: "H6",
  class: "H1",
  what: "tokens: short ones, guessing, the list of processes",
  async probe(stage) {
    const refused = spawnSync(process.execPath, [programPath, "serve", "--port", "0", "--data-dir", stage.folder], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: process.env.HOME, CELLWRIGHT_AUTH_TOKEN: "hunter2" },
    });
    expect(refused.status === 2 && refused.stderr.includes("16 characters"), `a short token: ${short(refused.stderr)}`);
    expect(!refused.stderr.includes("hunter2"), "the token is shown");
    const token = "a-token-of-20-letters";
    const server = await serve(stage, { env: { CELLWRIGHT_AUTH_TOKEN: token } });
    expect(!readFileSync(`/proc/${server.pid}/cmdline`, "utf8").includes(token), "the token is on the command line");
    const guesses = [];
    for (let turn = 0; turn < 12; turn += 1) guesses.push((await runs(server, "1", bearer(`guess-${turn}`))).status);
    expect(guesses.at(-1) === 429, `guesses are answered ${guesses.join(" ")}`);
    expect((await runs(server, "1", bearer(token))).status === 429, "the right one is told from wrong ones meanwhile");
  },
  async control(stage) {
    const token = randomFlag();
    const server = await serve(stage, { args: ["--auth-token", token] });
    proves(readFileSync(`/proc/${server.pid}/cmdline`, "utf8").includes(token), "a flag is not seen");
    return "as a flag it is in the list of processes";
  },
};

const h8 = {
  id: "H8",
  class: "H1",
  what: "a page of a public package index that names a file in a private network",
  async probe(stage) {
    // Both are on loopback here; only what is known about the index matters.
    const { fetched, hits } = await followPage(stage, { indexIsPrivate: false });
    expect(fetched.kind === "unreachable" && hits.length === 0, `fetched: ${short(q(fetched))}`);
  },
  async control(stage) {
    const { fetched, hits } = await followPage(stage, { indexIsPrivate: true });
    proves(fetched.kind === "file" && hits.length === 1, short(q(fetched)));
    return "a private index may lead there";
  },
};

async function followPage(stage, { indexIsPrivate }) {
  const hits = [];
  const inner = await listen(stage, (request, response) => {
    hits.push(request.url);
    response.end("inner");
  });
  const files = [{ filename: "x-1.0-py3-none-any.whl", url: `${inner}x-1.0-py3-none-any.whl`, hashes: {} }];
  const index = await listen(stage, (_, response) => {
    response.setHeader("content-type", "application/vnd.pypi.simple.v1+json");
    response.end(q({ meta: { "api-version": "1.0" }, name: "x", files }));
  });
  const folder = mkdtempSync(join(stage.folder, "downloads-"));
  for (const name of ["files", "deno"]) mkdirSync(join(folder, name));
  const downloads = createDownloads({
    sources: findSources(),
    folder: join(folder, "files"),
    denoDir: join(folder, "deno"),
    distributionUrl: "http://distribution.invalid/",
    networkEnv: {},
    silentHosts: new Map(),
    log: createLog("silent"),
    isPrivate: async (url) => indexIsPrivate || url.host !== new URL(index).host,
  });
  stage.after(() => downloads.end());
  downloads.setIndex({ url: `${index}simple/` });
  const page = await downloads.fetch(`${index}simple/x/`, { page: true });
  proves(page.kind === "file", `the page was not read: ${q(page)}`);
  return { fetched: await downloads.fetch(files[0].url), hits };
}

async function listen(stage, handle) {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  stage.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${portOf(server)}/`;
}

const title = "\u001b]0;owned\u0007\u001b[2J\u001b[6n";

const h11 = {
  id: "H11",
  class: "H1",
  what: "`cellwright run`: escape sequences to the terminal, an existing figure-1.png",
  async probe(stage) {
    const folder = mkdtempSync(join(stage.folder, "run-"));
    const dataDir = makeDataDir();
    stage.after(() => void rmSync(dataDir, { recursive: true, force: true }));
    writeFileSync(join(folder, "figure-1.png"), "the user's own");
    const png = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1").toString("base64");
    const code = [
      "import base64, sys",
      `print(${q(`\u001b[31mred\u001b[0m${title}end`)})`,
      `print(${q(title)}, file=sys.stderr)`,
      "class Figure:",
      `    def _repr_png_(self): return base64.b64decode("${png}")`,
      "display(Figure())",
    ].join("\n");
    const args = [programPath, "run", "--kernel", "wasm", "--data-dir", dataDir, "-c", code];
    const shown = onTerminal([process.execPath, ...args], folder);
    proves(shown.includes("\u001b[31mred"), `colours are gone: ${q(short(shown))}`);
    for (const sequence of ["\u001b]", "\u001b[2J", "\u001b[6n"])
      expect(!shown.includes(sequence), `the terminal is sent ${q(sequence)}`);
    expect(readFileSync(join(folder, "figure-1.png"), "utf8") === "the user's own", "figure-1.png is written over");
    expect(existsSync(join(folder, "figure-2.png")), "the figure is not saved");
  },
  async control(stage) {
    const shown = onTerminal(["python3", "-c", `print(${q(title)})`], stage.folder);
    proves(shown.includes("\u001b]0;owned"), q(short(shown)));
    return "Python itself prints them";
  },
};

/** Output for a program that believes to have a terminal. */
function onTerminal(command, cwd) {
  const script = "import pty, sys\nsys.exit(pty.spawn(sys.argv[1:]) >> 8)";
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, TERM: "xterm" };
  return spawnSync("python3", ["-c", script, ...command], { cwd, env, encoding: "latin1" }).stdout;
}

const h13 = {
  id: "H13",
  class: "H1",
  what: "a process of another user on a sandbox's port is sent code and token",
  needs: needsTwoUsers,
  async probe(stage) {
    const { reply, heard } = await this.ask(stage, []);
    expect(heard().length === 0, `it was sent: ${short(heard())}`);
    expect(reply.isError && reply.text.includes("another user"), short(reply.text));
  },
  async control(stage) {
    const { heard } = await this.ask(stage, ["--insecure"]);
    proves(heard().includes("the code"), `it was sent: ${short(heard())}`);
    return "with --insecure it is";
  },
  async ask(stage, more) {
    const listener = `require("node:http").createServer((q, r) => { console.log(JSON.stringify(q.headers)); q.on("data", (d) => console.log(String(d))); q.on("end", () => r.end('{"status":"success"}')); }).listen(0, "127.0.0.1", function () { console.log(this.address().port); })`;
    const child = spawn(process.execPath, ["-e", listener], { uid: 4242, gid: 4242, cwd: "/" });
    stage.after(() => void child.kill("SIGKILL"));
    let said = "";
    child.stdout.on("data", (chunk) => {
      said += chunk;
    });
    await once(child.stdout, "data");
    const port = Number(said);
    said = "";
    const args = ["--pool-url", `http://127.0.0.1:${port}`, ...more];
    const front = await startStdio({ args, kernel: ["--kernel", "pool"] });
    stage.after(() => front.stop());
    return { reply: await front.run("'the code'"), heard: () => said };
  },
};

function readQuietly(path) {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

export default [s2, s11, s13, h1, h6, h8, h11, h13];
