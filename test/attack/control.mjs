// Where negative controls run: a bare Pyodide, and a listener that notices every connection.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findSources } from "../../dist/kernels/wasm/sources.js";
import { portOf } from "./case.mjs";

const { denoFile, pyodideDir, versions } = findSources();
const cacheDir = fileURLToPath(new URL("../../node_modules/.cache/cellwright-test/", import.meta.url));
const snapshotFile = join(cacheDir, `bare-${versions.deno}-${versions.pyodide}.snapshot`);
mkdirSync(cacheDir, { recursive: true });

export { pyodideDir };

/** Without sandbox and limits, so every wait on it is bounded and it can be killed at any time. */
export class Bare {
  #child;
  #ready;
  #waiting = new Map();
  #lastId = 0;
  #pieces = [];
  #env;

  constructor(folder, env) {
    this.workspace = mkdtempSync(join(folder, "bare-"));
    // Without the last, Deno checks for updates, and a canary in another lane would count that as an attack.
    const own = { DENO_DIR: mkdtempSync(join(folder, "deno-dir-")), NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
    this.#env = { ...env, ...own };
  }

  get pid() {
    return this.#child?.pid;
  }

  start() {
    if (this.#ready) return this.#ready;
    const script = fileURLToPath(new URL("./bare.mjs", import.meta.url));
    const flags = [
      "--no-prompt",
      "--no-config",
      "--no-remote",
      "--no-npm",
      "--no-lock",
      "--unstable-worker-options",
      "--allow-all",
    ];
    const child = spawn(denoFile, ["run", ...flags, script, pyodideDir, this.workspace, snapshotFile], {
      cwd: "/",
      env: this.#env,
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child = child;
    // Output of an earlier process, sent just before it was killed.
    this.#pieces = [];
    child.stdin.on("error", () => {});
    child.stdout.setEncoding("utf8").on("data", (text) => {
      if (this.#child === child) this.#read(text);
    });
    child.once("exit", () => {
      if (this.#child !== child) return;
      this.#ready = undefined;
      for (const settle of this.#waiting.values()) settle("DIED");
      this.#waiting.clear();
    });
    this.#ready = new Promise((resolve) => this.#waiting.set(0, resolve));
    return this.#ready;
  }

  /** The last expression as text, or `RAISED …`, `DIED` or `TIMEOUT`. After a timeout it is killed. */
  async run(code, { timeoutMs = 10_000 } = {}) {
    await this.start();
    this.#lastId += 1;
    const id = this.#lastId;
    const answered = new Promise((resolve) => this.#waiting.set(id, resolve));
    this.#child.stdin.write(`${JSON.stringify({ id, code })}\n`);
    let timer;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, timeoutMs, "TIMEOUT");
    });
    const text = await Promise.race([answered, timeout]);
    clearTimeout(timer);
    this.#waiting.delete(id);
    if (text === "TIMEOUT") await this.kill();
    return text;
  }

  async kill() {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  async stop() {
    await this.kill();
  }

  #read(text) {
    // An answer may be 50 MB long: its pieces are joined once, at its end.
    this.#pieces.push(text);
    if (!text.includes("\n")) return;
    const lines = this.#pieces.join("").split("\n");
    this.#pieces = [lines.pop()];
    for (const line of lines) {
      if (!line.startsWith("\u0001")) continue;
      const { id, text: answer } = JSON.parse(line.slice(1));
      this.#waiting.get(id)?.(answer);
    }
  }
}

/** Listens for TCP, UDP, DNS and on Unix sockets, counts connections, and sends the flag to each. */
export class Canary {
  hits = 0;
  #closers = [];

  constructor(flag) {
    this.flag = flag;
  }

  /** In its own network it also answers on the ports that attacks expect, at every address. */
  async open({ folder, ownNetwork }) {
    const host = ownNetwork ? "::" : "127.0.0.1";
    this.port = await this.#listen({ port: 0, host });
    if (ownNetwork) await this.#listen({ port: 80, host });
    this.udpPort = await this.#bind(0, host);
    this.dnsPort = await this.#bind(ownNetwork ? 53 : 0, host);
    this.socketPath = join(folder, "canary.sock");
    await this.#listen({ path: this.socketPath });
    this.abstractName = `cellwright-attack-${randomBytes(6).toString("hex")}`;
    await this.#listen({ path: `\0${this.abstractName}` });
  }

  async close() {
    await Promise.all(this.#closers.map((close) => close()));
  }

  async #listen(where) {
    const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${this.flag.length}\r\nconnection: close\r\n\r\n${this.flag}`;
    const server = createServer((socket) => {
      this.hits += 1;
      socket.on("error", () => {});
      // Clients that send first get an answer; clients that wait get the flag as well.
      const timer = setTimeout(() => socket.end(answer), 150);
      socket.once("data", () => {
        clearTimeout(timer);
        socket.end(answer);
      });
    });
    server.listen(where);
    await once(server, "listening");
    this.#closers.push(() => new Promise((resolve) => server.close(resolve)));
    return portOf(server);
  }

  async #bind(port, host) {
    const socket = createSocket(host === "::" ? "udp6" : "udp4");
    socket.on("message", (query, from) => {
      this.hits += 1;
      // "No such name", so that the resolver does not wait.
      const answer = Buffer.from(query);
      if (answer.length > 11) answer.writeUInt16BE(0x8183, 2);
      socket.send(answer, from.port, from.address, () => {});
    });
    socket.bind(port, host);
    await once(socket, "listening");
    this.#closers.push(() => new Promise((resolve) => socket.close(() => resolve(undefined))));
    return portOf(socket);
  }
}
