// Group B for local kernels and bash, first part: exhaustion of processes, memory, time, descriptors and names.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, inLanes, protects, proves, short, timed, until } from "./case.mjs";
import { forBoth, inPython, MEMORY_MB, PIDS, patience, sessionIn, startLocal } from "./local-stage.mjs";
import { descendants, isAlive, rssMb } from "./server.mjs";
import { JAILED } from "./tier.mjs";

/** A stopped session accepts the next cell soon. */
const ADMIT_MS = 7_000;
const WIDE = ["--memory-mb", "4096", "--disk-mb", "4096", "--pids", "2000", "--warm", "0"];

/** A server with limits above all bombs, which stop by themselves. */
export async function unlimited(stage) {
  return stage.ownServer((env) => startLocal({ args: ["--jail", "none", ...WIDE], env }));
}

/** One cell may still find a kernel that is being ended, and report it; the one after it has to run. */
export async function runsAgain(session, name) {
  const code = session.language === "python" ? "6 * 7" : "echo $((6 * 7))";
  const { value, ms } = await timed(async () => {
    const first = await session.run(code, { timeout_s: 30 });
    return first.status === "kernel_died" ? session.run(code, { timeout_s: 30 }) : first;
  });
  expect(value.text.includes("42"), `${name}: the next cell does not run: ${short(value.text)}`);
  expect(ms < ADMIT_MS * patience(), `${name}: the next cell took ${Math.round(ms)} ms`);
}

/** Queries the neighbour continuously during the attack; returns its slowest answer. */
export async function besides(server, work) {
  const ms = [];
  let isOver = false;
  const asking = (async () => {
    while (!isOver) ms.push((await timed(() => server.admin.run("keep", { session_id: server.neighbour }))).ms);
  })();
  try {
    return { value: await work(), worstMs: () => Math.max(...ms) };
  } finally {
    isOver = true;
    await asking;
  }
}

/** As many children as possible, up to 300. They wait until their parent is gone. */
const manyChildren = `made = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    print("refused", error)
print("made", made)
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
    try:
        if int(read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1]) == os.getpid(): os.kill(pid, 9)
    except (OSError, IndexError): pass
while True:
    try: os.wait()
    except ChildProcessError: break`;
const realBombs = {
  python: "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
  bash: "bomb() { bomb | bomb & }; bomb; while :; do bomb; done 2>/dev/null",
};

const b19 = forBoth((language) => ({
  id: "B19",
  class: "A2*",
  what: "fork bomb: counted, and a real one",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const { text } = await session.run(inPython(language, manyChildren));
    const made = Number(/made (\d+)/.exec(text)?.[1]);
    protects(made <= PIDS + 8, `${made} processes with --pids ${PIDS}: ${short(text)}`);
    await runsAgain(session, "counted");
    const before = descendants(server.pid).length;
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, descendants(server.pid).length - before);
    }, 50);
    const { value: ms, worstMs } = await besides(server, async () => {
      return (await timed(() => session.run(realBombs[language], { timeout_s: 2 }))).ms;
    });
    clearInterval(watch);
    protects(most <= PIDS + 16, `${most} processes with --pids ${PIDS}`);
    protects(worstMs() < 3_000 * patience(), `the neighbour waited ${Math.round(worstMs())} ms`);
    expect(ms < 8_000 * patience(), `the cell ended after ${Math.round(ms)} ms`);
    await session.call("reset_session");
    await until("its processes to be gone", () => descendants(server.pid).filter(isAlive).length <= before, 10_000);
    await runsAgain(session, "after a real one");
    return `at most ${Math.max(made, most)} processes`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await unlimited(stage), language);
    const { text } = await session.run(inPython(language, manyChildren), { timeout_s: 60 });
    proves(text.includes("made 300"), short(text));
    return "300 processes with --pids 2000";
  },
}));

/** Each stops by itself at 700 MB, above the limit of a session plus an idle interpreter. */
const memoryBombs = {
  bytearrays: [
    "hoard = [bytearray(b'x') * 10_000_000 for _ in range(70)]\nprint(len(hoard), 'hoarded')",
    "MemoryError",
  ],
  children:
    "pids = []\nfor _ in range(7):\n    pids.append(os.fork())\n    if pids[-1] == 0:\n        hoard = bytearray(b'x') * 100_000_000\n        time.sleep(4)\n        os._exit(0)\nends = [os.waitpid(pid, 0)[1] for pid in pids]\nprint('hoarded' if not any(ends) else 'ended')",
  "shared memory":
    "import mmap\nhoard = [mmap.mmap(-1, 100_000_000) for _ in range(7)]\nfor area in hoard:\n    for at in range(0, 100_000_000, 4096): area[at] = 1\nprint('hoarded')",
  "/dev/shm": "for i in range(12):\n    open(f'/dev/shm/bomb{i}', 'wb').write(bytes(60_000_000))\nprint('hoarded')",
  "/tmp": "for i in range(12):\n    open(f'/tmp/bomb{i}', 'wb').write(bytes(60_000_000))\nprint('hoarded')",
  "nameless memory files":
    "hoard = []\nfor i in range(14):\n    hoard.append(os.memfd_create('bomb'))\n    os.write(hoard[-1], bytes(50_000_000))\nprint('hoarded')",
};

const b20 = forBoth((language) => ({
  id: "B20",
  class: "A2*",
  what: "memory bombs: own, of children, shared, in /dev/shm and /tmp, nameless",
  async probe(stage) {
    const server = await stage.server("auto");
    const known = new Set(descendants(server.pid));
    for (const [name, bomb] of stage.some(memoryBombs, 4)) {
      const [code, ending] = typeof bomb === "string" ? [bomb] : bomb;
      const session = await sessionIn(stage, server, language, language === "python" ? "state = 1234" : "state=1234");
      let peak = 0;
      const watch = setInterval(() => {
        const own = descendants(server.pid).filter((pid) => !known.has(pid));
        peak = Math.max(
          peak,
          own.map(rssMb).reduce((sum, size) => sum + size, 0),
        );
      }, 50);
      const reply = await session.run(inPython(language, code), { timeout_s: 30 });
      clearInterval(watch);
      // Shared pages are counted for each process here.
      protects(peak < 3 * (MEMORY_MB + 256), `${name}: the session grew to ${Math.round(peak)} MB`);
      expect(!reply.text.includes("hoarded"), `${name}: all of it was to be had`);
      const isTold = /memory|Killed|SIGKILL|ended|No space left/i.test(reply.text);
      expect(isTold, `${name}: nothing tells of memory: ${short(reply.text)}`);
      if (language === "python" && reply.status === "kernel_died")
        expect(/ran out of memory/.test(reply.text), `${name}: ${short(reply.text)}`);
      if (ending === "MemoryError") {
        expect(reply.text.includes(ending), `${name}: ${short(reply.text)}`);
        const state = await session.run(language === "python" ? "state" : "echo $state");
        expect(state.text.includes("1234"), `${name}: a MemoryError cost the session its state`);
      }
      await runsAgain(session, name);
      await session.close();
    }
  },
  async control(stage) {
    const session = await sessionIn(stage, await unlimited(stage), language);
    for (const name of ["bytearrays", "shared memory"]) {
      const [code] = [memoryBombs[name]].flat();
      const { text } = await session.run(inPython(language, code), { timeout_s: 60 });
      proves(text.includes("hoarded"), `${name}: ${short(text)}`);
    }
    return "700 MB with --memory-mb 4096";
  },
}));

const loops = {
  python: {
    "while True": "while True: pass",
    swallowing: "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ignoring: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "a sleep that swallows": "import time\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass",
    __del__: "class Stay:\n    def __del__(self):\n        while True: pass\ns = Stay()\ndel s",
    "a thread that is joined":
      "import threading, time\nthread = threading.Thread(target=time.sleep, args=(1000,))\nthread.start()\nthread.join()",
  },
  bash: {
    "while :": "while :; do :; done",
    trapping: "trap 'echo no' INT; while :; do :; done",
    ignoring: "trap '' INT TERM HUP QUIT; while :; do :; done",
    "a program that ignores": "(trap '' INT TERM; sleep 1000)",
    "a reader of nothing": "cat </dev/zero >/dev/null",
    "functions redefined": "builtin() { :; }; printf() { :; }; source() { :; }; while :; do :; done",
  },
};
const deepLoops = {
  python: {
    "sum(range(10**12))": "sum(range(10**12))",
    "a regular expression": 'import re\nre.match(r"(a+)+$", "a" * 40 + "b")',
    "a call that keeps the lock": "import ctypes\nctypes.PyDLL(None).sleep(1000)",
    "signals blocked":
      "import signal, ctypes\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nctypes.PyDLL(None).sleep(1000)",
    "a large power": "len(str(7 ** 20_000_000))",
    "stuck in numpy":
      "import numpy\nnumpy.sort(numpy.random.random((9, 1_000_000)), axis=0)\nwhile True: numpy.linalg.svd(numpy.ones((1500, 1500)))",
  },
  bash: {
    "another program instead": "exec sleep 1000",
    "a program without signals":
      "exec python3 -c 'import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(1000)'",
    "a reading builtin": "read line < <(sleep 1000)",
    recursion: "deep() { deep; }; deep; while :; do :; done",
    "a pipe without end": "yes | while read -r line; do :; done",
  },
};

function endless(id, what, cells) {
  return forBoth((language) => ({
    id,
    class: "A2*",
    what,
    async probe(stage) {
      const server = await stage.server("auto");
      const attacks = stage.some(cells[language], 5);
      await inLanes(attacks, 3, async ([name, code]) => {
        const session = await sessionIn(stage, server, language);
        const { value, ms } = await timed(() => session.run(code, { timeout_s: 1 }));
        // The shell may exit by itself first.
        const isOver =
          value.status === "timeout" || (language === "bash" && ["error", "kernel_died"].includes(value.status));
        expect(isOver, `${name}: ${value.status}, ${short(value.text)}`);
        // One second of run time, two of grace, and the end of a process.
        expect(ms < 6_000 * patience(), `${name}: stopped after ${Math.round(ms)} ms`);
        await runsAgain(session, name);
        await session.close();
      });
      return `${attacks.length} loops`;
    },
    async control(stage) {
      const server = await stage.server("none");
      const session = await sessionIn(stage, server, language);
      const call = session.run(Object.values(cells[language])[0], { timeout_s: 600, wait_s: 2 }, { timeout: 60_000 });
      const reply = await Promise.race([
        call,
        new Promise((resolve) => setTimeout(resolve, 3_000, { status: "running" })),
      ]);
      proves(reply.status === "running", `${reply.status}: ${short(reply.text)}`);
      await session.call("interrupt");
      await call.catch(() => {});
      return "without a time limit it still runs after 3 s";
    },
  }));
}

const b21 = endless("B21", "endless loops, with and without swallowing the interrupt", loops);
const b22 = endless("B22", "loops in C and in programs, with the lock held, with signals blocked", deepLoops);

const masses = (stage) => ({
  threads:
    "import threading\nmade = 0\ntry:\n    for _ in range(10_000):\n        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()\n        made += 1\nexcept RuntimeError: pass\nprint('made', made)",
  descriptors:
    "held = []\ntry:\n    for _ in range(10_000): held.append(os.open('held', os.O_CREAT | os.O_RDWR))\nexcept OSError: pass\nprint('made', len(held))\nfor one in held: os.close(one)",
  files: `for i in range(${stage.times(60_000, 8_000)}): os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY))\nprint("made")`,
  depth: `home = os.getcwd()\nfor i in range(${stage.times(4_096, 1_500)}):\n    os.mkdir("d")\n    os.chdir("d")\nopen("deepest", "w").close()\nos.chdir(home)\nprint("made")`,
  "a long way":
    'home = os.getcwd()\nfor i in range(60):\n    os.mkdir("d" * 200)\n    os.chdir("d" * 200)\nos.chdir(home)\nprint("made")',
  "folders without rights":
    'for i in range(50):\n    os.makedirs(f"closed{i}/in")\n    os.chmod(f"closed{i}/in", 0)\n    os.chmod(f"closed{i}", 0)\nprint("made")',
});

const b23 = forBoth((language) => ({
  id: "B23",
  class: "A2*",
  what: "10 000 threads and descriptors, many files, deep folders; then closed within 10 s",
  async probe(stage) {
    const args = [...JAILED, "--memory-mb", "512", "--disk-mb", "512", "--pids", String(PIDS), "--warm", "0"];
    const server = await stage.ownServer((env) => startLocal({ args, env }));
    for (const [name, code] of Object.entries(masses(stage))) {
      const session = await sessionIn(stage, server, language);
      const { value: reply, worstMs } = await besides(server, () =>
        session.run(inPython(language, code), { timeout_s: 60 }),
      );
      // Nothing is counted beyond the longest path, so the kernel is ended.
      expect(/made|beyond the limit/.test(reply.text), `${name}: ${short(reply.text)}`);
      const made = Number(/made (\d+)/.exec(reply.text)?.[1] ?? 0);
      if (name === "threads") protects(made <= PIDS + 8, `${made} threads with --pids ${PIDS}`);
      if (name === "descriptors") expect(made < 10_000, `${made} descriptors`);
      protects(worstMs() < 2_000 * patience(), `${name}: the neighbour waited ${Math.round(worstMs())} ms`);
      const listed = await session.call("list_files", { recursive: true });
      expect(!/error: internal/.test(listed.text), `${name}: ${short(listed.text)}`);
      await runsAgain(session, name);
      const folder = join(session.workspace, "..");
      const { ms } = await timed(() => session.close());
      expect(ms < 10_000 * patience(), `${name}: closing took ${Math.round(ms)} ms`);
      expect(!existsSync(folder), `${name}: files are left`);
    }
  },
  async control(stage) {
    const session = await sessionIn(stage, await unlimited(stage), language);
    const { text } = await session.run(inPython(language, masses(stage).threads.replace("10_000", "500")), {
      timeout_s: 60,
    });
    proves(text.includes("made 500"), short(text));
    return "500 threads with --pids 2000";
  },
}));

export default [...b19, ...b20, ...b21, ...b22, ...b23];
