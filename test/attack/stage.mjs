// The surroundings of a case: servers with a neighbour session, a bare kernel, a canary, a flag.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomFlag } from "./case.mjs";
import { Bare, Canary } from "./control.mjs";
import { checkInvariants, takeState } from "./invariants.mjs";
import { startHttp, startStdio } from "./server.mjs";
import { JAILED } from "./tier.mjs";

/** Low limits, so that exceeding them takes little time and memory. */
export const MEMORY_MB = 256;
export const DISK_MB = 64;
const LIMITS = ["--memory-mb", String(MEMORY_MB), "--disk-mb", String(DISK_MB), "--warm", "0"];

export const tokens = { alice: randomFlag(), bob: randomFlag() };

/** How shared servers are started. `auto` (the tier of this run) and `none` differ in the sandbox around kernels. */
const recipes = {
  auto: (env) => startStdio({ args: [...JAILED, ...LIMITS], env }),
  none: (env) => startStdio({ args: ["--jail", "none", ...LIMITS], env }),
  http: (env) =>
    startHttp({
      args: [...JAILED, ...LIMITS, ...Object.entries(tokens).flatMap(([n, t]) => ["--auth-token", `${n}=${t}`])],
      env,
    }),
};

export class Stage {
  flag = randomFlag();
  folder = mkdtempSync(join(tmpdir(), "cellwright-attack-stage-"));
  #servers = new Map();
  #used = new Map();
  #sessions = [];
  #cleanups = [];
  #notes = [];

  #recipes;

  constructor({ short, privateNetwork, jailObstacle, recipes: own = recipes }) {
    this.short = short;
    this.#recipes = own;
    /** Whether all visible traffic of this machine is the attack's own. */
    this.privateNetwork = privateNetwork;
    this.jailObstacle = jailObstacle;
    /** The isolation layers to try, one at a time. */
    this.walls = jailObstacle ? ["none"] : ["auto", "none"];
    this.flagFile = join(this.folder, "flag.txt");
    writeFileSync(this.flagFile, this.flag);
    this.canary = new Canary(this.flag);
    this.bare = new Bare(this.folder, { PATH: process.env.PATH, CELLWRIGHT_ATTACK_FLAG: this.flag });
  }

  async open() {
    await this.canary.open({ folder: this.folder, ownNetwork: this.privateNetwork });
  }

  async close() {
    for (const starting of this.#servers.values()) await starting.then((server) => server.stop()).catch(() => {});
    await this.bare.stop();
    await this.canary.close();
    // By a program: Node's own removal fails on a folder that it may not list.
    spawnSync("rm", ["-rf", this.folder]);
  }

  times(full, shortened) {
    return this.short ? shortened : full;
  }

  /** All entries of a list of attacks; in the short form the first ones, which are the most telling. */
  some(attacks, shortened) {
    return Object.entries(attacks).slice(0, this.short ? shortened : undefined);
  }

  /** A shared server; its invariants are checked after the case. */
  async server(name) {
    if (!this.#servers.has(name)) this.#servers.set(name, this.#start(this.#recipes[name]));
    const server = await this.#servers.get(name);
    if (!this.#used.has(server)) this.#used.set(server, takeState(server));
    return server;
  }

  /** A separate server for the case, with its own neighbour; its invariants are checked as well. */
  async ownServer(recipe) {
    const server = await this.#start(recipe);
    this.#used.set(server, takeState(server));
    this.after(() => server.stop());
    return server;
  }

  /** The session that all escape cases share: whatever one of them breaks stays broken for the next. */
  async attacker(server) {
    server.attacker ??= this.#open(server, "0").then((session) => {
      // It stays, so it is part of the initial state of the case.
      this.#used.set(server, takeState(server));
      server.kept.add(session.id);
      return session;
    });
    return server.attacker;
  }

  /** A session of the case; it is closed and its files are deleted before invariants are checked. */
  async session(server, code = "0", args = {}) {
    const session = await this.#open(server, code, args);
    this.#sessions.push(session);
    return session;
  }

  async #open(server, code, args = {}) {
    const reply = await server.admin.run(code, args);
    if (!reply.session) throw new Error(`no session: ${reply.text.slice(0, 300)}`);
    return {
      id: reply.session,
      reply,
      workspace: join(server.dataDir, "sessions", reply.session, "workspace"),
      run: (cell, more = {}, options = {}) =>
        server.admin.run(cell, { session_id: reply.session, timeout_s: 15, ...more }, options),
      call: (name, more = {}, options = {}) => server.admin.call(name, { session_id: reply.session, ...more }, options),
      close: () => server.admin.call("close_session", { session_id: reply.session, delete_files: true }),
    };
  }

  /** For a server that the case has stopped itself. */
  forget(server) {
    this.#used.delete(server);
  }

  /** Run when the case is over, newest first. */
  after(work) {
    this.#cleanups.push(work);
  }

  /** For a gap that is open in this tier, and documented. */
  note(text) {
    this.#notes.push(text);
  }

  takeNotes() {
    return this.#notes.splice(0);
  }

  async endCase() {
    const problems = [];
    const note = (error) => problems.push(error);
    for (const session of this.#sessions.splice(0)) await session.close().catch(() => {});
    for (const [server, before] of this.#used) {
      const name = [...this.#servers].find(([, starting]) => starting === server.starting)?.[0];
      await checkInvariants(server, before).catch((error) => {
        note(error);
        // The next case starts with a working one.
        if (name) this.#servers.delete(name);
        this.#cleanups.push(() => server.stop());
      });
    }
    this.#used.clear();
    for (const work of this.#cleanups.splice(0).reverse()) await work()?.catch?.(note);
    return problems;
  }

  #start(recipe) {
    const starting = (async () => {
      const tmpDir = mkdtempSync(join(this.folder, "tmp-"));
      const server = await recipe({ TMPDIR: tmpDir, CELLWRIGHT_ATTACK_FLAG: this.flag, OPENAI_API_KEY: this.flag });
      const admin = server.client ? await server.client({ token: tokens.alice }) : server;
      const keep = randomFlag();
      const reply = await admin.run(`keep = ${JSON.stringify(keep)}\nopen("secret.txt", "w").write(keep)`);
      if (reply.status !== "ok") throw new Error(`the neighbour did not start: ${reply.text.slice(0, 500)}`);
      Object.assign(server, {
        admin,
        keep,
        neighbour: reply.session,
        tmpDir,
        starting,
        kept: new Set([reply.session]),
      });
      return server;
    })();
    return starting;
  }
}

/** A folder on its own file system that is full at a known size. Undefined where mounting is not allowed. */
export function smallDisk(folder, sizeMb) {
  mkdirSync(folder, { recursive: true });
  const run = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMb}m`, "tmpfs", folder], { encoding: "utf8" });
  if (run.status !== 0) return undefined;
  return { folder, release: () => spawnSync("umount", ["-l", folder]) };
}
