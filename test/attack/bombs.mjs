// Group B, first half: exhaustion of processes, memory, time and disk.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, inLanes, js, protects, proves, short, sleep, timed, until } from "./case.mjs";
import { descendants, isAlive, rssMb, startStdio } from "./server.mjs";
import { DISK_MB, MEMORY_MB, smallDisk } from "./stage.mjs";

/** A stopped session accepts the next cell within 5 s; a machine under load gets a little more. */
const ADMIT_MS = 7_000;

async function runsAgain(session, name) {
  const { value, ms } = await timed(() => session.run("6 * 7", { timeout_s: 5 }));
  expect(value.text.includes("42"), `${name}: the next cell does not run: ${short(value.text)}`);
  expect(ms < ADMIT_MS, `${name}: the next cell took ${Math.round(ms)} ms`);
}

const forks = {
  "os.fork": "import os\nos.fork()",
  "os.system": 'import os\nos.system("sleep 60 &")',
  subprocess: 'import subprocess\nsubprocess.Popen(["sleep", "60"])',
  multiprocessing: "import multiprocessing\nmultiprocessing.Process(target=print).start()",
  "os.posix_spawn": 'import os\nos.posix_spawn("/bin/sleep", ["sleep", "60"], {})',
  threading: "import threading\nthreading.Thread(target=print).start()",
};
const jsForks = {
  "Deno.Command": js(
    'for (let i = 0; i < 10; i++) new Deno.Command("sleep", { args: ["60"] }).spawn(); return "spawned"',
  ),
  "node:child_process": js(
    'const c = await import("node:child_process"); for (let i = 0; i < 10; i++) c.spawn("sleep", ["60"]); return "spawned"',
  ),
};

const b19 = {
  id: "B19",
  class: "A2*",
  what: "fork bomb: processes from Python and JavaScript, 500 sub-workers",
  async probe(stage) {
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const session = await stage.session(server);
      const before = descendants(server.pid).length;
      for (const [name, code] of Object.entries({ ...forks, ...jsForks })) {
        const reply = await session.run(code);
        expect(
          descendants(server.pid).length <= before,
          `${name} started a process, --jail ${wall}: ${short(reply.text)}`,
        );
        expect(!reply.text.includes("spawned"), `${name}: ${short(reply.text)}`);
      }
      if (wall !== stage.walls[0]) continue;
      await session.run(
        js(
          'for (let i = 0; i < 500; i++) new Worker("data:text/javascript,setInterval(()=>{},9)", { type: "module" }); return 1',
        ),
        { timeout_s: 5 },
      );
      await sleep(500);
      await runsAgain(session, "sub-workers").catch(() => runsAgain(session, "sub-workers"));
    }
  },
  async control(stage) {
    for (const [name, code] of Object.entries(jsForks)) {
      const text = await stage.bare.run(code);
      const count = descendants(stage.bare.pid).length;
      for (const pid of descendants(stage.bare.pid)) process.kill(pid, "SIGKILL");
      proves(text.includes("spawned") && count >= 10, `${name}: ${count} processes, ${text}`);
    }
    return "20 processes of a bare kernel";
  },
};

/** Each stops by itself at 1.5 GB, so that a missing limit does no harm. */
const memoryBombs = {
  bytearrays: [
    "hoard = []\nfor _ in range(150):\n    hoard.append(bytearray(b'x') * 10_000_000)\nlen(hoard)",
    "MemoryError",
  ],
  "JavaScript buffers": [
    js("globalThis.z = []; for (let i = 0; i < 75; i++) z.push(new Uint8Array(20e6).fill(1)); return z.length"),
  ],
  "JavaScript objects": [js("globalThis.z = []; for (let i = 0; i < 2e7; i++) z.push({ a: [i] }); return z.length")],
  "V8's limits lifted": [
    js(
      '(await import("node:v8")).setFlagsFromString("--max-old-space-size=8000"); (await import("node:v8")).setFlagsFromString("--wasm-max-mem-pages=65536"); globalThis.z = []; for (let i = 0; i < 2e7; i++) z.push({ a: [i] }); return z.length',
    ),
  ],
  "after the cell, in a timer": [
    js(
      "globalThis.z = []; setTimeout(() => { for (let i = 0; i < 75; i++) z.push(new Uint8Array(20e6).fill(1)); }, 50); return 1",
    ),
    "idle",
  ],
  "one large string": ['len("x" * 1_500_000_000)', "MemoryError"],
  "WebAssembly memories": [
    js(
      "globalThis.z = []; for (let i = 0; i < 10; i++) { const m = new WebAssembly.Memory({ initial: 2400 }); new Uint8Array(m.buffer).fill(1); z.push(m); } return z.length",
    ),
  ],
  "in sub-workers": [
    js(
      'for (let i = 0; i < 5; i++) new Worker("data:text/javascript,const z=[];for(let i=0;i<20;i++)z.push(new Uint8Array(15e6).fill(1));setInterval(()=>z,99)", { type: "module" }); await new Promise((r) => setTimeout(r, 3000)); return 5',
    ),
  ],
};

const b20 = {
  id: "B20",
  class: "A2*",
  what: "memory bombs: bytearrays, buffers, JavaScript heap, WebAssembly, timers",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    // Memory of Python, V8's old space and Deno itself; and what can be allocated between two checks.
    const limitMb = MEMORY_MB + 256 + 300 + 600;
    for (const [name, [code, ending]] of stage.some(memoryBombs, 4)) {
      const session = await stage.session(server, "state = 1234");
      const kernels = () => Math.max(0, ...descendants(server.pid).map(rssMb));
      let peak = 0;
      const watch = setInterval(() => {
        peak = Math.max(peak, kernels());
      }, 20);
      const reply = await session.run(code);
      if (ending === "idle") await sleep(2_500);
      clearInterval(watch);
      protects(peak < limitMb, `${name}: the kernel grew to ${Math.round(peak)} MB`);
      if (ending === "MemoryError") {
        expect(reply.text.includes("MemoryError"), `${name}: ${short(reply.text)}`);
        const state = await session.run("hoard = None\nstate");
        expect(state.text.includes("1234"), `${name}: a MemoryError cost the session its state`);
      } else if (!ending)
        expect(reply.status === "kernel_died" && /memory/.test(reply.text), `${name}: ${short(reply.text)}`);
      await runsAgain(session, name);
      await session.close();
    }
  },
  async control(stage) {
    const python = await stage.bare.run(memoryBombs.bytearrays[0], { timeoutMs: 20_000 });
    proves(python === "150", python);
    const script = await stage.bare.run(memoryBombs["JavaScript buffers"][0], { timeoutMs: 20_000 });
    const grown = rssMb(stage.bare.pid);
    await stage.bare.kill();
    proves(script === "75" && grown > 2_000, `${script}, ${Math.round(grown)} MB`);
    return `a bare kernel grows to ${Math.round(grown)} MB`;
  },
};

const loops = {
  "while True": "while True: pass",
  "while True that swallows":
    "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
  "time.sleep that swallows":
    "import time\nwhile True:\n    try:\n        time.sleep(100)\n    except BaseException:\n        pass",
  "await that swallows":
    "import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(100)\n    except BaseException:\n        pass",
  "atexit and __del__":
    "class Stay:\n    def __del__(self):\n        while True: pass\nimport atexit\natexit.register(lambda: 1/0)\ns = Stay()\ndel s",
};
const deepLoops = {
  "sum(range(10**12))": "sum(range(10**12))",
  regex: 'import re\nre.match(r"(a+)+$", "a" * 40 + "b")',
  "a large power": "len(str(7 ** 10_000_000))",
  "for(;;) in JavaScript": js("for (;;) {}"),
  microtasks: js("const again = () => Promise.resolve().then(again); await again(); await new Promise(() => {})"),
  "Atomics.wait": js("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"),
  "a promise that never ends": "from pyodide.code import run_js\nawait run_js('new Promise(() => {})')",
};

function endless(id, what, cells) {
  return {
    id,
    class: "A2*",
    what,
    async probe(stage) {
      await inLanes(stage.some(cells, 4), 4, async ([name, code]) => {
        const session = await stage.session(await stage.server(stage.walls[0]));
        const { value, ms } = await timed(() => session.run(code, { timeout_s: 1 }));
        expect(value.status === "timeout", `${name}: ${value.status}, ${short(value.text)}`);
        // One second of run time, two of grace, and the end of a process.
        expect(ms < 6_000, `${name}: stopped after ${Math.round(ms)} ms`);
        await runsAgain(session, name);
        await session.close();
      });
    },
    async control(stage) {
      const text = await stage.bare.run(Object.values(cells)[0], { timeoutMs: 3_000 });
      proves(text === "TIMEOUT", text);
      return "a bare kernel still runs after 3 s";
    },
  };
}

const b21 = endless("B21", "endless loops, with and without swallowing the interrupt", loops);
const b22 = endless("B22", "loops in C, in a regex, in JavaScript, in microtasks, blocked", deepLoops);

const masses = (stage) => ({
  descriptors: js(
    `globalThis.held = []; let n = 0; try { for (; n < 10000; n++) held.push(Deno.openSync(W + "/held", { write: true, create: true })); } catch {} return n`,
  ),
  files: js(
    `for (let i = 0; i < ${stage.times(60_000, 12_000)}; i++) Deno.writeTextFileSync(W + "/f" + i, ""); return "made"`,
  ),
  folders: js(
    `for (let i = 0; i < 1000; i++) Deno.mkdirSync(W + "/d" + i + "/a/b", { recursive: true }); return "made"`,
  ),
  depth: js(
    `let p = W; let n = 0; try { for (; n < 4096; n++) { p += "/d"; Deno.mkdirSync(p); } } catch {} for (let i = 0; i < 3; i++) { Deno.mkdirSync(W + "/u"); Deno.renameSync(W + "/d", W + "/u/d"); let q = W + "/u"; Deno.renameSync(q, W + "/d"); } return n`,
  ),
});

const b23 = {
  id: "B23",
  class: "A2*",
  what: "10 000 descriptors, many files, deep folders; then closed within 10 s",
  async probe(stage) {
    const server = await stage.ownServer((env) =>
      startStdio({ args: ["--warm", "0", "--disk-mb", "512", "--memory-mb", "256"], env }),
    );
    for (const [name, code] of Object.entries(masses(stage))) {
      const session = await stage.session(server);
      const reply = await session.run(code, { timeout_s: 60 });
      expect(!/error: internal/.test(reply.text), `${name}: ${short(reply.text)}`);
      const { ms: neighbourMs } = await timed(() => server.admin.run("keep", { session_id: server.neighbour }));
      protects(neighbourMs < 1_500, `${name}: the neighbour waited ${Math.round(neighbourMs)} ms`);
      const listed = await session.call("list_files", { recursive: true });
      expect(!/error: internal/.test(listed.text), `${name}: ${short(listed.text)}`);
      await runsAgain(session, name);
      const folder = join(session.workspace, "..");
      const { ms } = await timed(() => session.close());
      expect(ms < 10_000, `${name}: closing took ${Math.round(ms)} ms`);
      expect(!existsSync(folder), `${name}: files are left`);
    }
  },
  async control(stage) {
    const made = await stage.bare.run(
      js('for (let i = 0; i < 12000; i++) Deno.writeTextFileSync(W + "/f" + i, ""); return "made"'),
      { timeoutMs: 30_000 },
    );
    proves(made === "made" && readdirSync(stage.bare.workspace).length >= 12_000, made);
    spawnSync("find", [stage.bare.workspace, "-mindepth", "1", "-delete"]);
    return "12 000 files of a bare kernel";
  },
};

/** 8 MB every 25 ms, about as fast as a real disk, so that the check interval matters. All stop at 400 MB. */
const pour = (target) =>
  `const b = new Uint8Array(8e6); for (let i = 0; i < 50; i++) { ${target}; await new Promise((r) => setTimeout(r, 25)); } return "poured"`;
const endlessJs = (code) => js(code).replaceAll("4000", "60000");
const diskBombs = {
  "Python's write":
    'import time\nblock = bytes(8_000_000)\nwith open("x", "wb") as f:\n    for i in range(50):\n        f.write(block)\n        time.sleep(0.025)\n"poured"',
  "Python, file unlinked":
    'import os, time\nblock = bytes(8_000_000)\nf = open("x", "wb")\nos.unlink("x")\nfor i in range(50):\n    f.write(block)\n    time.sleep(0.3 if i % 7 == 0 else 0.025)\n"poured"',
  "past Python": endlessJs(pour("Deno.writeFileSync(W + '/f' + i, b)")),
  "past Python, file unlinked": endlessJs(
    `const f = globalThis.held = Deno.openSync(W + "/x", { write: true, create: true }); Deno.removeSync(W + "/x"); ${pour("f.writeSync(b)")}`,
  ),
  "after the cell, in a timer": endlessJs(
    `(async () => { ${pour("Deno.writeFileSync(W + '/f' + i, b)")} })(); return "left running"`,
  ),
  "below a path too long for the server": endlessJs(
    `let p = W; while (p.length < 3800) { p += "/" + "d".repeat(200); Deno.mkdirSync(p); } const n = "n".repeat(4090 - p.length - 10); ${pour("Deno.writeFileSync(p + '/' + i + n, b)")}`,
  ),
  "Cache API": endlessJs(`const c = await caches.open("x"); ${pour('await c.put("http://a/" + i, new Response(b))')}`),
  sqlite: endlessJs(
    `const { DatabaseSync } = await import("node:sqlite"); const d = new DatabaseSync(W + "/x.db"); d.exec("create table t(a)"); ${pour('d.exec("insert into t values(zeroblob(8000000))")')}`,
  ),
  "a zip bomb":
    'import zipfile, io\nbuffer = io.BytesIO()\nwith zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:\n    for i in range(40):\n        z.writestr(f"f{i}", bytes(10_000_000))\nzipfile.ZipFile(buffer).extractall(".")\n"poured"',
};
/** The watchdog's tolerance, and what is written between two of its checks. */
const DISK_BOUND_MB = DISK_MB + 32 + 140;
const DISK_SIZE_MB = 700;

const b24 = {
  id: "B24",
  class: "A2*",
  what: "fill the disk: through Python, past it, unlinked, idle, in the cache",
  needs: (stage) => needsMount(stage),
  async probe(stage) {
    const disk = smallDisk(join(stage.folder, "small"), DISK_SIZE_MB);
    stage.after(() => disk.release());
    const server = await onDisk(stage, disk.folder);
    const through = [];
    for (const [name, code] of stage.some(diskBombs, 6)) {
      const session = await stage.session(server);
      const before = usedMb(disk.folder);
      let peak = 0;
      const watch = setInterval(() => {
        peak = Math.max(peak, usedMb(disk.folder) - before);
      }, 20);
      await session.run(code, { timeout_s: 20 });
      if (name.startsWith("after")) await sleep(3_500);
      clearInterval(watch);
      if (peak > DISK_BOUND_MB) through.push(`${name}: ${Math.round(peak)} MB`);
      const written = await server.admin.run("1", { session_id: server.neighbour });
      expect(written.status === "ok", `${name}: the neighbour's journal cannot be written: ${short(written.text)}`);
      await session.close();
      await until("the space to be free again", () => usedMb(disk.folder) - before < 20, 5_000);
    }
    protects(through.length === 0, `--disk-mb ${DISK_MB}, but ${through.join("; ")}`);
  },
  async control(stage) {
    const text = await stage.bare.run(diskBombs["past Python"], { timeoutMs: 20_000 });
    const bytes = readdirSync(stage.bare.workspace).reduce(
      (sum, name) => sum + statSync(join(stage.bare.workspace, name)).size,
      0,
    );
    spawnSync("find", [stage.bare.workspace, "-mindepth", "1", "-delete"]);
    proves(text === "poured" && bytes === 400e6, `${text}, ${bytes} bytes`);
    return "400 MB of a bare kernel";
  },
};

const b25 = {
  id: "B25",
  class: "A2*",
  what: "the host's disk is full under journal and logs",
  needs: (stage) => needsMount(stage),
  async probe(stage) {
    const disk = smallDisk(join(stage.folder, "full"), 64);
    stage.after(() => disk.release());
    const server = await onDisk(stage, disk.folder);
    const session = await stage.session(server, "state = 1234");
    fillUp(disk.folder);
    for (const code of ["state", 'open("x", "w").write("x" * 100_000)', "print('y' * 1_000_000)"]) {
      const reply = await session.run(code);
      expect(!/error: internal/.test(reply.text), `a full disk is a bug: ${short(reply.text)}`);
    }
    for (const [tool, args] of [
      ["write_file", { path: "a", content: "x".repeat(1e5) }],
      ["list_files", {}],
      ["list_variables", {}],
    ]) {
      const reply = await session.call(tool, args);
      expect(!/error: internal/.test(reply.text), `${tool} on a full disk: ${short(reply.text)}`);
    }
    const fresh = await server.admin.run("1");
    expect(!/error: internal/.test(fresh.text), `a new session on a full disk: ${short(fresh.text)}`);
    if (fresh.session) await server.admin.call("close_session", { session_id: fresh.session, delete_files: true });
    rmSync(join(disk.folder, "ballast"));
    const after = await session.run("state");
    expect(after.text.includes("1234"), `not recovered: ${short(after.text)}`);
    const again = await stage.session(server, "6 * 7");
    expect(again.reply.text.includes("42"), `no new session after recovery: ${short(again.reply.text)}`);
  },
  async control(stage) {
    const disk = smallDisk(join(stage.folder, "full2"), 16);
    stage.after(() => disk.release());
    fillUp(disk.folder);
    let code;
    try {
      writeFileSync(join(disk.folder, "journal"), "x".repeat(10_000));
    } catch (error) {
      code = error.code;
    }
    proves(code === "ENOSPC", `a plain write: ${code ?? "it worked"}`);
    return "a plain append fails with ENOSPC";
  },
};

function needsMount(stage) {
  const disk = smallDisk(join(stage.folder, "try"), 1);
  disk?.release();
  return disk ? undefined : "a file system of limited size cannot be mounted here";
}

function usedMb(folder) {
  const { blocks, bfree, bsize } = statfsSync(folder);
  return ((blocks - bfree) * bsize) / 1e6;
}

function fillUp(folder) {
  spawnSync("dd", ["if=/dev/zero", `of=${join(folder, "ballast")}`, "bs=64k"]);
}

async function onDisk(stage, folder) {
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  symlinkSync(
    new URL("../../node_modules/.cache/cellwright-test/cache", import.meta.url).pathname,
    join(dataDir, "cache"),
  );
  return stage.ownServer((env) =>
    startStdio({ args: ["--warm", "0", "--disk-mb", String(DISK_MB), "--memory-mb", String(MEMORY_MB)], env, dataDir }),
  );
}

const ticking =
  js(`const tick = () => Deno.writeTextFileSync(W + "/ticks", "x", { append: true }); setInterval(tick, 20);
  new Worker("data:text/javascript," + encodeURIComponent("setInterval(() => Deno.writeTextFileSync(" + JSON.stringify(W + "/subticks") + ", 'x', { append: true }), 20)"), { type: "module" }); return 1`);

const b30 = {
  id: "B30",
  class: "A2*",
  what: "what outlives its cell (timers, tasks, sub-workers) is gone after close and reset",
  async probe(stage) {
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const before = descendants(server.pid).filter(isAlive).length;
      const session = await stage.session(server, ticking);
      await until("ticks", () => existsSync(join(session.workspace, "subticks")));
      await session.call("reset_session");
      const size = statSync(join(session.workspace, "ticks")).size;
      await sleep(300);
      expect(statSync(join(session.workspace, "ticks")).size === size, "it ticks on after a reset");
      await session.run(ticking);
      await session.close();
      await sleep(300);
      expect(!existsSync(session.workspace), "it made its folder again after close");
      expect(descendants(server.pid).filter(isAlive).length <= before, "a process is left");
    }
  },
  async control(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]), ticking);
    const size = () => statSync(join(session.workspace, "ticks")).size;
    await until("ticks", () => existsSync(join(session.workspace, "ticks")));
    const first = size();
    await sleep(300);
    proves(size() > first, "nothing outlives the cell");
    return "it ticks on after its cell";
  },
};

const b31 = {
  id: "B31",
  class: "A2*",
  what: "the kernel stops itself (SIGSTOP), in a cell and between cells",
  async probe(stage) {
    for (const wall of stage.walls) {
      const session = await stage.session(await stage.server(wall));
      const { ms } = await timed(() => session.run(js('Deno.kill(Deno.pid, "SIGSTOP"); return 1'), { timeout_s: 2 }));
      expect(ms < 8_000, `the cell ended after ${Math.round(ms)} ms`);
      await runsAgain(session, "in a cell");
      await session.run(js('setTimeout(() => Deno.kill(Deno.pid, "SIGSTOP"), 50); return 1'));
      await sleep(200);
      const { value, ms: nextMs } = await timed(() => session.run("6 * 7", { timeout_s: 5 }));
      expect(nextMs < 12_000, `the next cell took ${Math.round(nextMs)} ms, --jail ${wall}`);
      if (!value.text.includes("42")) await runsAgain(session, "between cells");
    }
  },
  async control(stage) {
    const stopped = stage.bare.run(js('Deno.kill(Deno.pid, "SIGSTOP"); return 1'), { timeoutMs: 2_000 });
    await until(
      "a stopped process",
      () => /^State:\s+T/m.test(readFileSync(`/proc/${stage.bare.pid}/status`, "utf8")),
      2_000,
    );
    proves((await stopped) === "TIMEOUT", "it was not stopped");
    return "a bare kernel stays stopped";
  },
};

const hogs = js(
  'for (let i = 0; i < 8; i++) new Worker("data:text/javascript,for(;;){}", { type: "module" }); return 1',
);

const b32 = {
  id: "B32",
  alone: true,
  class: "A2*",
  what: "eight CPU hogs beside a latency probe",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const quiet = await latency(server, 60);
    const session = await stage.session(server, hogs);
    await sleep(300);
    const loud = await latency(server, 60);
    await session.close();
    // Below 25 ms the scheduler decides.
    protects(loud < Math.max(3 * quiet, 75), `p95 ${quiet.toFixed(0)} ms became ${loud.toFixed(0)} ms`);
    return `p95 ${quiet.toFixed(0)} ms, with hogs ${loud.toFixed(0)} ms`;
  },
  async control(stage) {
    const server = await stage.server(stage.walls[0]);
    const before = descendants(server.pid);
    await stage.session(server, hogs);
    const [kernel] = descendants(server.pid)
      .filter((pid) => !before.includes(pid))
      .sort((one, other) => rssMb(other) - rssMb(one));
    const first = cpuMs(kernel);
    await sleep(1_000);
    const used = cpuMs(kernel) - first;
    proves(used > 700, `the hogs used ${used} ms of a second`);
    return `the hogs use ${used} ms per second`;
  },
};

async function latency(server, times) {
  const taken = [];
  for (let turn = 0; turn < times; turn += 1) {
    taken.push((await timed(() => server.admin.run("keep", { session_id: server.neighbour }))).ms);
  }
  return taken.sort((one, other) => one - other)[Math.floor(times * 0.95)];
}

function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export default [b19, b20, b21, b22, b23, b24, b25, b30, b31, b32];
