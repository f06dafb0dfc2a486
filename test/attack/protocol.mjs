// Group C over stdio: hostile input, and clients that leave at any time.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { expect, Invalid, proves, short, sleep, timed, until } from "./case.mjs";
import { descendants, isAlive, spawnRaw } from "./server.mjs";

const q = JSON.stringify;
const request = (id, method, params) => ({ jsonrpc: "2.0", id, method, params });
const callTool = (id, name, args) => request(id, "tools/call", { name, arguments: args });

/** A program that is initialized and driven line by line. */
async function raw(stage, options = {}) {
  const program = spawnRaw({
    args: ["--warm", "0", "--memory-mb", "256", ...(options.args ?? [])],
  });
  stage.after(() => program.stop());
  const info = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
  await program.ask(request("hello", "initialize", info));
  program.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  return program;
}

async function served(stage) {
  const program = await raw(stage);
  const reply = await program.ask(callTool(1, "execute_code", { code: "6 * 7" }));
  proves(q(reply.result).includes("42"), q(reply).slice(0, 300));
  return "the well-formed twin is served";
}

/** @type {[line: string, code: number][]} */
const malformed = [
  ["{ no json", -32700],
  ['{"jsonrpc":"2.0","id":2,"method":"tools/list"', -32700],
  ["[]", -32600],
  ["42", -32600],
  ['"text"', -32600],
  ["null", -32600],
  ['{"id":3}', -32600],
  ['{"jsonrpc":"1.0","id":4,"method":"tools/list"}', -32600],
  ['{"jsonrpc":"2.0","id":{},"method":"tools/list"}', -32600],
  [q(request(5, "no/such/method", {})), -32601],
  [q(callTool(6, "no_such_tool", {})), -32602],
  [q(request(7, "tools/call", {})), -32602],
  [q(request(8, "tools/call", { name: 5 })), -32602],
];
const wrongArguments = [
  ["execute_code", {}],
  ["execute_code", { code: 5 }],
  ["execute_code", { code: null }],
  ["execute_code", { code: "1", timeout_s: -1 }],
  ["execute_code", { code: "1", timeout_s: "soon" }],
  ["execute_code", { code: "1", unknown: 1 }],
  ["execute_code", { code: "1", session_id: "../../etc" }],
  ["execute_code", { code: "1", variables: [] }],
  ["wait", {}],
  ["read_file", { session_id: "x".repeat(10_000), path: "a" }],
];

const c33 = {
  id: "C33",
  class: "A2",
  what: "broken JSON, wrong types, missing fields, unknown methods and tools",
  async probe(stage) {
    const program = await raw(stage);
    for (const [line, code] of malformed) {
      const reply = await program.askLine(line);
      expect(reply?.error?.code === code, `${line.slice(0, 60)} → ${q(reply)?.slice(0, 200)}`);
    }
    for (const [index, [name, args]] of wrongArguments.entries()) {
      const reply = await program.ask(callTool(100 + index, name, args));
      expect(
        reply.result?.isError === true && !/error: internal/.test(q(reply)),
        `${name} ${q(args).slice(0, 80)} → ${q(reply).slice(0, 200)}`,
      );
    }
    const after = await program.ask(callTool(200, "list_sessions", {}));
    expect(after.result && !after.result.isError, q(after).slice(0, 200));
  },
  control: served,
};

const c34 = {
  id: "C34",
  class: "A2",
  what: "deep JSON, 70 MB of code, NUL, lone surrogates, BOM, CRLF, U+2028",
  async probe(stage) {
    const program = await raw(stage);
    const deep = "[".repeat(1e6) + "]".repeat(1e6);
    for (const line of [
      deep,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1","variables":{"x":${deep}}}}}`,
    ]) {
      const reply = await program.askLine(line);
      expect(reply?.error, `deep JSON → ${q(reply)?.slice(0, 200)}`);
    }
    const huge = await program.askLine(q(callTool(2, "execute_code", { code: `#${"x".repeat(70e6)}` })));
    expect(huge?.error?.code === -32600, `70 MB → ${q(huge)?.slice(0, 200)}`);
    const strange = [
      "\0",
      "x = '\0'",
      '"\ud800"',
      "\ufeff6 * 7",
      "6 *\\\r\n7",
      "x = 1\u2028y",
      "\u202e6 * 7",
      "\t 6",
      "",
      "   ",
      "\\",
      "'''",
      "\x1a",
      "é".repeat(1000),
      "(".repeat(5000),
      "9".repeat(5000),
      `${"x=".repeat(3000)}1`,
      `${"-".repeat(90_000)}1`,
      "[".repeat(90) + "]".repeat(90),
    ];
    const first = await program.ask(callTool(3, "execute_code", { code: "keep = 42" }));
    const session = first.result._meta["cellwright/execution"].session_id;
    for (const [index, code] of strange.entries()) {
      // JSON.stringify escapes a lone surrogate, which is valid JSON but not valid text.
      const reply = await program.ask(
        callTool(10 + index, "execute_code", { code, session_id: session, timeout_s: 10 }),
      );
      expect(reply.result && !/error: internal/.test(q(reply)), `${q(code).slice(0, 40)} → ${q(reply).slice(0, 200)}`);
      expect(
        ["ok", "error"].includes(reply.result._meta?.["cellwright/execution"]?.status),
        `${q(code).slice(0, 40)} → ${q(reply).slice(0, 300)}`,
      );
    }
    const after = await program.ask(callTool(99, "execute_code", { code: "keep", session_id: session }));
    expect(q(after).includes("42"), `the session lost its state: ${q(after).slice(0, 200)}`);
  },
  control: served,
};

const c35 = {
  id: "C35",
  class: "A2",
  what: "duplicate request ids, at the same time and later",
  async probe(stage) {
    const program = await raw(stage);
    const { result } = await program.ask(callTool(1, "execute_code", { code: "1" }));
    const session_id = result._meta["cellwright/execution"].session_id;
    program.send(callTool(7, "execute_code", { code: "import time; time.sleep(0.3); 'first'", session_id }));
    program.send(callTool(7, "execute_code", { code: "'second'", session_id }));
    await sleep(1_500);
    const answers = program.lines().filter((line) => line.id === 7);
    expect(answers.length >= 1 && answers.length <= 2, `${answers.length} answers to one id`);
    expect(q(answers).includes("first") || answers.some(({ error }) => error), q(answers).slice(0, 300));
    const again = await program.ask(callTool(8, "execute_code", { code: "6 * 7", session_id }));
    expect(q(again).includes("42"), q(again).slice(0, 200));
  },
  control: served,
};

const c36 = {
  id: "C36",
  class: "S5",
  what: "`__proto__` and `constructor` as arguments, variables and names",
  async probe(stage) {
    const program = await raw(stage, { args: ["--structured"] });
    const evil =
      '{"__proto__":{"polluted":"POLLUTED","isError":true},"constructor":{"prototype":{"polluted":"POLLUTED"}},"a":1}';
    const lines = [
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1","__proto__":{"polluted":"POLLUTED"}}}}`,
      `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1","variables":${evil}}}}`,
      `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"__proto__","arguments":{}}}`,
      `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"constructor","arguments":{}}}`,
      `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"list_sessions","arguments":${evil}}}`,
      `{"jsonrpc":"2.0","id":6,"method":"__proto__","params":${evil}}`,
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{"session_id":"__proto__"}}}`,
      `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"cell://__proto__/constructor"}}`,
      `{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"_meta":${evil}},"__proto__":{"polluted":"POLLUTED"}}`,
    ];
    for (const line of lines) {
      const reply = await program.askLine(line);
      expect(reply, `no answer to ${line.slice(0, 80)}`);
      expect(!/error: internal/.test(q(reply)), `${line.slice(40, 120)} → ${q(reply).slice(0, 200)}`);
    }
    const list = await program.ask(callTool(50, "list_sessions", {}));
    expect(!q(list).includes("POLLUTED") && !list.result.isError, `polluted: ${q(list).slice(0, 200)}`);
    const cell = await program.ask(callTool(51, "execute_code", { code: "6 * 7" }));
    expect(q(cell).includes("42") && !q(cell).includes("POLLUTED"), q(cell).slice(0, 200));
  },
  async control() {
    const merge =
      'const m=(a,b)=>{for(const k in b)typeof b[k]===\'object\'?m(a[k]??={},b[k]):a[k]=b[k]};m({},JSON.parse(\'{"__proto__":{"polluted":"POLLUTED"}}\'));console.log({}.polluted)';
    const run = spawnSync(process.execPath, ["-e", merge], { encoding: "utf8" });
    proves(run.stdout.includes("POLLUTED"), run.stderr);
    return "a naive merge is polluted";
  },
};

const c43 = {
  id: "C43",
  class: "A2",
  what: "cancel before the start, during, at the end, twice, unknown ids ↻ 50",
  async probe(stage) {
    const program = await raw(stage);
    const { result } = await program.ask(callTool(1, "execute_code", { code: "keep = 42" }));
    const session_id = result._meta["cellwright/execution"].session_id;
    const cancel = (requestId) =>
      program.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } });
    const rounds = stage.times(80, 50);
    for (let round = 0; round < rounds; round += 1) {
      const id = 1000 + round;
      const code = ["pass", "import time; time.sleep(0.02)", "import asyncio; await asyncio.sleep(0.02)", "1"][
        round % 4
      ];
      program.send(callTool(id, "execute_code", { code, session_id }));
      if (round % 5 === 1) await sleep(round % 10);
      if (round % 5 === 2) await sleep(15 + (round % 10));
      if (round % 5 === 3) await program.answered(id);
      for (const target of [id, id, 999_999, "unknown", id + 500]) cancel(target);
      if (round % 7 === 0) await program.ask(callTool(`l${round}`, "list_sessions", {}));
    }
    const { value: after, ms } = await timed(() =>
      program.ask(callTool(2, "execute_code", { code: "keep", session_id })),
    );
    expect(q(after).includes("42"), `after ${rounds} cancels: ${q(after).slice(0, 300)}`);
    expect(ms < 5_000, `the next cell took ${Math.round(ms)} ms`);
  },
  control: served,
};

const c46 = {
  id: "C46",
  class: "A2",
  what: "stdin ends, stdout breaks, in mid-call; stdout holds protocol only",
  async probe(stage) {
    const ways = [
      (program) => program.child.stdin.end(),
      (program) => {
        program.child.stdout.destroy();
        // Only writing to a broken pipe reveals it.
        program.send(request(2, "ping", {}));
      },
      (program) => {
        program.child.stdin.destroy();
        program.child.stdout.destroy();
      },
    ];
    for (const [index, leave] of ways.entries()) {
      const program = await raw(stage);
      program.send(
        callTool(1, "execute_code", {
          code: "while True:\n    try:\n        while True: print('x' * 100)\n    except BaseException: pass",
        }),
      );
      await until("a running kernel", () => descendants(program.pid).length > 0);
      await sleep(700);
      const children = descendants(program.pid);
      const exited = once(program.child, "exit");
      leave(program);
      const { ms } = await timed(() => Promise.race([exited, sleep(12_000)]));
      expect(program.child.exitCode !== null, `way ${index + 1}: still there after ${Math.round(ms)} ms`);
      await until("the kernels to end", () => children.every((pid) => !isAlive(pid)), 3_000);
      expect(program.noise() === "", `stdout holds more than messages: ${short(program.noise())}`);
    }
  },
  async control(stage) {
    const program = await raw(stage);
    program.send(callTool(1, "execute_code", { code: "while True: pass" }));
    await until("a running kernel", () => descendants(program.pid).length > 0);
    await sleep(1_000);
    proves(descendants(program.pid).some(isAlive) && program.child.exitCode === null, "nothing runs anyway");
    return "with its client there, it goes on";
  },
};

const c48 = {
  id: "C48",
  class: "A2",
  what: "input() and getpass: a clear error at once",
  async probe(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]));
    for (const code of [
      'input("name? ")',
      "import getpass\ngetpass.getpass()",
      "import sys\nsys.stdin.readline()",
      "import sys\nsys.stdin.read()",
      "import os\nos.read(0, 10)",
      "breakpoint()",
      'open("/dev/stdin").read()',
    ]) {
      const { value, ms } = await timed(() => session.run(code, { timeout_s: 10 }));
      expect(ms < 4_000, `${code} took ${Math.round(ms)} ms: ${short(value.text)}`);
      expect(value.status === "ok" || value.status === "error", `${code}: ${value.status}`);
    }
    const clear = await session.run('input("name? ")');
    expect(clear.status === "error" && /input/.test(clear.text), short(clear.text));
  },
  async control() {
    const child = spawn("sh", ["-c", "read answer"], { stdio: ["pipe", "ignore", "ignore"] });
    await sleep(1_000);
    const waits = child.exitCode === null;
    child.kill("SIGKILL");
    if (!waits) throw new Invalid("a plain process does not wait for input");
    return "a plain process waits for ever";
  },
};

export default [c33, c34, c35, c36, c43, c46, c48];
