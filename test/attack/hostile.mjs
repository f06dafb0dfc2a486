// A kernel that attacks its own machinery: silent deaths, stolen lines, polluted prototypes, a removed workspace.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, inLanes, js, protects, proves, short, stealRing, timed } from "./case.mjs";

/** Each ends the interpreter, mostly silently. */
const deaths = {
  "Deno.exit": js("Deno.exit(7)"),
  "self.close": js("self.close(); await new Promise(() => {})"),
  "an error in a timer": js(
    'setTimeout(() => { throw new Error("boom"); }, 5); await new Promise((r) => setTimeout(r, 2000)); return 1',
  ),
  "an unhandled rejection": js(
    'Promise.reject(new Error("boom")); await new Promise((r) => setTimeout(r, 2000)); return 1',
  ),
  "process.abort": js("process.abort()"),
  "process.reallyExit": js("process.reallyExit(3)"),
  SIGKILL: js('Deno.kill(Deno.pid, "SIGKILL"); return 1'),
  SIGTERM: js('Deno.kill(Deno.pid, "SIGTERM"); return 1'),
  "an unstable API": js('await Deno.connect({ transport: "vsock", cid: 1, port: 9 })'),
  "os._exit": "import os\nos._exit(3)",
  "os.abort": "import os\nos.abort()",
  "closed stdout": js('const fs = await import("node:fs"); fs.closeSync(1); Deno.stdout.close?.(); return 1'),
  "closed stdin": js('const fs = await import("node:fs"); fs.closeSync(0); Deno.stdin.close?.(); return 1'),
  "memory overwritten": js("new Uint8Array(globalThis.pyodide?._module?.HEAPU8?.buffer ?? 8).fill(255); return 1"),
  "a dead loop of messages": js("self.onmessage = null; return 1"),
};

const x4 = {
  id: "X4",
  class: "A2*",
  what: "sudden exits: exit, close, abort, signals, closed descriptors",
  async probe(stage) {
    const walls = stage.short ? stage.walls.slice(0, 1) : stage.walls;
    const pairs = walls.flatMap((wall) => stage.some(deaths, 8).map(([name, code]) => ({ wall, name, code })));
    await inLanes([0, 1, 2, 3], 4, async (lane) => {
      // Few sessions for many deaths: each is followed by a fresh kernel in the same session.
      const mine = pairs
        .filter((_, index) => index % 4 === lane)
        .sort((one, other) => (one.wall < other.wall ? -1 : 1));
      let session;
      for (const { wall, name, code } of mine) {
        if (session?.wall !== wall) session = { wall, ...(await stage.session(await stage.server(wall))) };
        const { ms } = await timed(() => session.run(code, { timeout_s: 3 }));
        expect(ms < 8_000, `${name}: the cell took ${Math.round(ms)} ms to end, --jail ${wall}`);
        // One cell may still find the dead kernel and report it; the one after it has to run.
        const { value: next, ms: nextMs } = await timed(() => session.run("6 * 7", { timeout_s: 5 }));
        expect(nextMs < 12_000, `${name}: the next cell took ${Math.round(nextMs)} ms`);
        const after = next.text.includes("42") ? next : await session.run("6 * 7", { timeout_s: 5 });
        expect(after.text.includes("42"), `${name}: no fresh kernel: ${short(after.text)}`);
      }
    });
  },
  async control(stage) {
    const text = await stage.bare.run(deaths["Deno.exit"]);
    proves(text === "DIED", text);
    return "a bare kernel is gone";
  },
};

const thefts = [
  "(async () => { const b = new Uint8Array(65536); for (;;) { const n = await Deno.stdin.read(b); if (n === null) break; stolen += new TextDecoder().decode(b.subarray(0, n)); } })().catch(() => {})",
  '(await import("node:fs")).read(0, Buffer.alloc(65536), 0, 65536, null, (_, n, b) => { stolen += b; })',
];
const thief = (how) => js(`globalThis.stolen = ""; ${how}; return "waiting"`);

const x5 = {
  id: "X5",
  class: "S5",
  what: "read the control channel: steal lines, starve the supervisor",
  async probe(stage) {
    await inLanes(stage.short ? stage.walls.slice(0, 1) : stage.walls, 2, async (wall) => {
      const session = await stage.session(await stage.server(wall));
      for (const how of thefts) {
        await session.run(thief(how));
        for (let turn = 0; turn < 4; turn += 1) {
          const { value, ms } = await timed(() => session.run("6 * 7", { timeout_s: 5 }));
          expect(ms < 12_000, `a cell took ${Math.round(ms)} ms after its line was stolen`);
          expect(
            value.text.includes("42") || value.status === "kernel_died" || value.status === "timeout",
            `unclear end: ${short(value.text)}`,
          );
        }
        const reply = await session.run(js("return globalThis.stolen"));
        expect(!/[0-9a-f]{32}/.test(reply.text), `the nonce came out: ${short(reply.text)}`);
      }
      const after = await session.run("6 * 7");
      expect(after.text.includes("42"), short(after.text));
    });
  },
  async control(stage) {
    await stage.bare.run(thief(thefts[0]));
    const answers = [];
    for (let turn = 0; turn < 3; turn += 1) answers.push(await stage.bare.run("6 * 7", { timeoutMs: 1_500 }));
    await stage.bare.kill();
    proves(
      answers.some((answer) => answer !== "42"),
      "no line was stolen",
    );
    return `commands of a bare kernel: ${answers.join(", ")}`;
  },
};

const pollutions = {
  "Object.prototype": 'Object.prototype.polluted = "POLLUTED"; Object.prototype.toJSON = () => "POLLUTED"; return 1',
  "Array and Map": "Array.prototype.push = () => 0; Map.prototype.get = () => 0; return 1",
  JSON: 'JSON.stringify = () => "POLLUTED"; JSON.parse = () => ({ op: "POLLUTED" }); return 1',
  TextEncoder:
    "TextEncoder.prototype.encode = () => new Uint8Array(9); TextEncoder.prototype.encodeInto = () => ({ read: 1e9, written: 1e9 }); return 1",
  Atomics: "Atomics.store = Atomics.exchange = () => 7; return 1",
  Promise: "Promise.prototype.then = () => {}; return 1",
  "forged __proto__": `${stealRing} put(3, CELL, '{"type":"display","data":{"__proto__":{"polluted":"POLLUTED"},"text/plain":"shown","constructor":{"prototype":{"polluted":"POLLUTED"}}},"__proto__":{"displayId":"x"}}'); return 1`,
  "forged displayId": `${stealRing} for (const id of ["__proto__", "constructor", "toString"]) { say(CELL, { type: "display", data: { "text/plain": "a" }, displayId: id }); say(CELL, { type: "update", data: { "text/plain": "b" }, displayId: id }); } return 1`,
};

const x6 = {
  id: "X6",
  class: "S5",
  what: "prototype pollution, in the kernel and in forged events",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    await inLanes(Object.entries(pollutions), 3, async ([name, code]) => {
      const session = await stage.session(server);
      await session.run(js(code.replaceAll("CELL", "2")), { timeout_s: 3 });
      const fresh = await server.admin.call("list_sessions");
      protects(!fresh.whole.includes("POLLUTED"), `${name}: the server is polluted`);
      const other = await server.admin.run("[1]", { session_id: server.neighbour });
      protects(other.text.includes("[1]") && !other.whole.includes("POLLUTED"), `${name}: the neighbour is polluted`);
      await session.close();
    });
  },
  async control() {
    const merge =
      'const m=(a,b)=>{for(const k in b)typeof b[k]===\'object\'?m(a[k]??={},b[k]):a[k]=b[k]};m({},JSON.parse(\'{"__proto__":{"polluted":"POLLUTED"}}\'));console.log({}.polluted)';
    const run = spawnSync(process.execPath, ["-e", merge], { encoding: "utf8" });
    proves(run.stdout.includes("POLLUTED"), run.stderr);
    return "a naive merge is polluted";
  },
};

const x7 = {
  id: "X7",
  class: "A2",
  what: "remove the workspace itself, put a file or another folder in its place",
  async probe(stage) {
    for (const wall of stage.walls) {
      for (const how of [
        "Deno.removeSync(W, { recursive: true })",
        'Deno.removeSync(W, { recursive: true }); Deno.writeTextFileSync(W, "x")',
        'Deno.mkdirSync(W + "/in"); Deno.renameSync(W + "/in", W)',
      ]) {
        const session = await stage.session(await stage.server(wall));
        await session.run(js(`${how}; return 1`));
        for (const [tool, more] of [
          ["list_files", {}],
          ["read_file", { path: "a" }],
          ["write_file", { path: "b/c", content: "x" }],
          ["delete_file", { path: "b" }],
        ]) {
          const reply = await session.call(tool, more);
          expect(!/error: internal/.test(reply.text), `${tool} after ${how}: ${short(reply.text)}`);
        }
        const after = await session.run("6 * 7");
        expect(after.text.includes("42"), `after ${how}: ${short(after.text)}`);
        await session.call("reset_session");
        const fresh = await session.run("6 * 7");
        expect(!/error: internal/.test(fresh.text), `a fresh kernel after ${how}: ${short(fresh.text)}`);
        const folder = join(session.workspace, "..");
        await session.close();
        expect(!existsSync(folder), "the session's folder cannot be deleted any more");
      }
    }
  },
  async control(stage) {
    const session = await stage.session(await stage.server("none"));
    await session.run(js("Deno.removeSync(W, { recursive: true }); return 1"));
    proves(!existsSync(session.workspace), "the workspace is still there");
    return "without a jail it is really gone";
  },
};

export default [x4, x5, x6, x7];
