// Group B for local kernels and bash, last part: processes that outlive their cell, stop or end themselves, or use all CPUs.
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, inLanes, protects, proves, short, sleep, timed, until } from "./case.mjs";
import { runsAgain } from "./local-bombs.mjs";
import { forBoth, inPython, patience, sessionIn } from "./local-stage.mjs";
import { descendants, isAlive } from "./server.mjs";

/** A worst-case daemon: two forks, its own session, no parent, and it ignores all signals that can be ignored. */
const daemon = `path = os.path.abspath("ticks")
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    for number_ in range(1, 65):
        try: signal.signal(number_, signal.SIG_IGN)
        except (OSError, ValueError): pass
    # Its name is no help in finding it, and its environment neither.
    libc.prctl(15, b"innocent", 0, 0, 0)
    while True:
        with open(path, "a") as file: file.write("x")
        time.sleep(0.02)
for _ in range(5):
    if os.fork() == 0: os._exit(0)`;

const b30 = forBoth((language) => ({
  id: "B30",
  class: "A2*",
  what: "a daemon by two forks: outlives its cell, is gone after reset and close; zombies are reaped",
  async probe(stage) {
    const server = await stage.server("auto");
    const before = descendants(server.pid).filter(isAlive).length;
    const session = await sessionIn(stage, server, language);
    const ticks = join(session.workspace, "ticks");
    const size = () => statSync(ticks).size;
    await session.run(inPython(language, daemon));
    await until("ticks", () => existsSync(ticks) && size() > 0);
    await session.call("reset_session");
    const atReset = size();
    await sleep(300);
    expect(size() === atReset, "it ticks on after a reset");
    await session.run(inPython(language, daemon));
    await session.close();
    await sleep(300);
    expect(!existsSync(session.workspace), "it made its folder again after close");
    await until("processes to be gone", () => descendants(server.pid).filter(isAlive).length <= before);
    const zombies = descendants(server.pid).filter((pid) => {
      try {
        return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
      } catch {
        return false;
      }
    });
    expect(zombies.length === 0, `${zombies.length} zombies`);
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    const ticks = join(session.workspace, "ticks");
    await session.run(inPython(language, daemon));
    await until("ticks", () => existsSync(ticks));
    const first = statSync(ticks).size;
    await sleep(300);
    proves(statSync(ticks).size > first, "nothing outlives the cell");
    return "it ticks on after its cell";
  },
}));

const stopOf = { python: "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", bash: "kill -STOP $$" };
const stopLaterOf = {
  python: "import os, signal, threading\nthreading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()",
  bash: "(sleep 0.1; kill -STOP $$) >/dev/null 2>&1 &",
};

const b31 = forBoth((language) => ({
  id: "B31",
  class: "A2*",
  what: "the kernel stops itself (SIGSTOP), in a cell and between cells",
  async probe(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    const { ms } = await timed(() => session.run(stopOf[language], { timeout_s: 1 }));
    expect(ms < 8_000 * patience(), `the cell ended after ${Math.round(ms)} ms`);
    await runsAgain(session, "in a cell");
    await session.run(stopLaterOf[language]);
    await sleep(300);
    const { ms: nextMs } = await timed(() => session.run(language === "python" ? "1" : "echo 1", { timeout_s: 1 }));
    expect(nextMs < 10_000 * patience(), `the next cell took ${Math.round(nextMs)} ms`);
    await runsAgain(session, "between cells");
  },
  async control(stage) {
    const server = await stage.server("none");
    const session = await sessionIn(stage, server, language);
    const known = new Set(descendants(server.pid));
    const stopped = session.run(stopOf[language], { timeout_s: 600 }, { timeout: 60_000 });
    stopped.catch(() => {});
    const isStopped = (pid) => {
      try {
        return /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
      } catch {
        return false;
      }
    };
    await until("a stopped process", () => [...known].some(isStopped), 5_000);
    await sleep(1_000);
    proves([...known].some(isStopped), "it goes on by itself");
    return "without a time limit it stays stopped";
  },
}));

/** Each ends the kernel or cuts one of its connections, mostly silently. */
const deaths = {
  python: {
    "os._exit": "import os\nos._exit(3)",
    SIGKILL: "import os\nos.kill(os.getpid(), 9)",
    abort: "import os\nos.abort()",
    "a wild pointer": "import ctypes\nctypes.string_at(8)",
    "exit in a thread":
      "import os, threading\nthreading.Timer(0.1, lambda: os._exit(0)).start()\nimport time\ntime.sleep(5)",
    "all descriptors closed": "import os\nos.closerange(0, 4096)",
    "the stack at its end":
      "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nclass A:\n    def __getattr__(self, name): return getattr(self, name)\nimport re\nf()",
    "all processes killed": "import os\nos.kill(-1, 9)",
    "another program": 'import os\nos.execv("/bin/sleep", ["sleep", "1000"])',
    "the loop closed": "import asyncio\nasyncio.get_event_loop().stop()",
    SystemExit: "raise SystemExit",
  },
  bash: {
    exit: "exit 3",
    SIGKILL: "kill -9 $$",
    "all descriptors closed": 'for fd in $(ls /proc/$$/fd); do eval "exec $fd>&-"; done',
    "all processes killed": "kill -9 -1",
    "its commands taken": "exec 10<&- 11<&- 12<&- 13<&- 59<&- 255<&-; exec 0</dev/null",
    "reading its own commands": "cat <&10; cat <&0; read -u 10 line; echo $line",
    "another program": "exec sleep 1000",
    "options that end it": "set -eu; false; echo $nothing",
    traps: "trap 'exit 9' DEBUG ERR EXIT; false",
    "the loader broken": "export LD_PRELOAD=/nonexistent PATH=/nowhere IFS=xyz; enable -n printf builtin source",
  },
};

const x14 = forBoth((language) => ({
  id: "X14",
  class: "A2*",
  what: "sudden exits: exit, signals, closed descriptors, other programs",
  async probe(stage) {
    const server = await stage.server("auto");
    await inLanes(Object.entries(deaths[language]), 3, async ([name, code]) => {
      const session = await sessionIn(stage, server, language);
      const { ms } = await timed(() => session.run(code, { timeout_s: 2 }));
      expect(ms < 8_000 * patience(), `${name}: the cell took ${Math.round(ms)} ms to end`);
      const next = await session.run(language === "python" ? "6 * 7" : "echo $((6 * 7))", { timeout_s: 3 });
      if (!next.text.includes("42")) await session.call("reset_session");
      await runsAgain(session, name);
      await session.close();
    });
    return `${Object.keys(deaths[language]).length} deaths`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    const reply = await session.run(Object.values(deaths[language])[0]);
    proves(reply.status === "kernel_died", short(reply.text));
    return "the kernel is gone, and that is told";
  },
}));

const hogs = "for _ in range(8):\n    if os.fork() == 0:\n        while True: pass";

const b32 = forBoth((language) => ({
  id: "B32",
  alone: true,
  class: "A2*",
  what: "eight CPU hogs beside a latency probe",
  async probe(stage) {
    const server = await stage.server("auto");
    const quiet = await latency(server, 40);
    const session = await sessionIn(stage, server, language);
    await session.run(inPython(language, hogs));
    await sleep(300);
    const loud = await latency(server, 40);
    await session.close();
    // Below 40 ms the scheduler decides.
    protects(loud < Math.max(3 * quiet, 120), `p95 ${quiet.toFixed(0)} ms became ${loud.toFixed(0)} ms`);
    return `p95 ${quiet.toFixed(0)} ms, with hogs ${loud.toFixed(0)} ms`;
  },
  async control(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const known = new Set(descendants(server.pid));
    await session.run(inPython(language, hogs));
    const fresh = descendants(server.pid).filter((pid) => !known.has(pid));
    const used = () => fresh.reduce((sum, pid) => sum + cpuMs(pid), 0);
    const first = used();
    await sleep(1_000);
    proves(used() - first > 300, `the hogs used ${used() - first} ms of a second`);
    return `the hogs use ${used() - first} ms per second`;
  },
}));

async function latency(server, times) {
  const taken = [];
  for (let turn = 0; turn < times; turn += 1)
    taken.push((await timed(() => server.admin.run("keep", { session_id: server.neighbour }))).ms);
  return taken.sort((one, other) => one - other)[Math.floor(times * 0.95)];
}

function cpuMs(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
}

export default [...b30, ...b31, ...x14, ...b32];
