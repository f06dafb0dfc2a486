// What a jail shares with the machine by default: sockets in visible folders, limits that are counted per user, new
// kinds of sockets and system calls, and the browser's own jail.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { findBrowser } from "../../dist/browser/find.js";
import { startBrowser } from "../../dist/browser/process.js";
import { createLog } from "../../dist/log.js";
import { makeVenv } from "./audit-env.mjs";
import { all, expect, protects, proves, short, until } from "./case.mjs";
import { forBoth, forPython, inPython, LIMITS, sessionIn, startLocal, tryAll } from "./local-stage.mjs";
import { descendants, startStdio } from "./server.mjs";
import { hasNamespaces, JAILED, triedTier } from "./tier.mjs";

const q = JSON.stringify;
const NO_JAIL = ["--jail", "none"];

/** A folder of the user's in which programs listen: one for streams, one for datagrams. */
async function listeners(stage) {
  const folder = mkdtempSync(join(stage.folder, "shown-"));
  let hits = 0;
  const open = [];
  const server = createServer((socket) => {
    hits += 1;
    open.push(socket);
    socket.on("error", () => {}).end(stage.flag);
  });
  server.listen(join(folder, "agent.sock"));
  await once(server, "listening");
  stage.after(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  const code = `
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
print("ready", flush=True)
while listener.recv(100): print("heard", flush=True)`;
  const datagrams = spawn("python3", ["-c", code, join(folder, "log.sock")], { stdio: ["ignore", "pipe", "ignore"] });
  datagrams.stdout.setEncoding("utf8").on("data", (text) => {
    if (text.includes("heard")) hits += 1;
  });
  stage.after(() => void datagrams.kill("SIGKILL"));
  await once(datagrams.stdout, "data");
  return { folder, hits: () => hits };
}

const connections = (folder) => {
  const agent = join(folder, "agent.sock");
  const log = join(folder, "log.sock");
  return {
    "by path": `out = ask(${q(agent)}, socket.AF_UNIX)`,
    "by a relative path": `os.chdir(${q(folder)})\ntry: out = ask("agent.sock", socket.AF_UNIX)\nfinally: os.chdir(WORKSPACE)`,
    "by a link": `os.path.lexists("agent") or os.symlink(${q(agent)}, "agent")\nout = ask("agent", socket.AF_UNIX)`,
    "by a descriptor": `at = os.open(${q(folder)}, os.O_PATH)\nout = ask(f"/proc/self/fd/{at}/agent.sock", socket.AF_UNIX)`,
    "by the root of a process": `out = ask("/proc/self/root" + ${q(agent)}, socket.AF_UNIX)`,
    "a thread's": `import threading\ntold = []\nthread = threading.Thread(target=lambda: told.append(ask(${q(agent)}, socket.AF_UNIX)))\nthread.start()\nthread.join(5)\nout = told`,
    "a child's": `out = in_child(lambda: ask(${q(agent)}, socket.AF_UNIX))`,
    "a datagram": `sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\nsender.sendto(b"x", ${q(log)})\nout = GOT`,
    "a datagram of a pair": `sender, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nsender.sendto(b"x", ${q(log)})\nout = GOT`,
  };
};
/** Only in a jail: while the gate examines the call, another thread changes the path in memory. */
const hopes = (folder) => ({
  "an address that changes": `import ctypes, threading
own, theirs = "own.sock", ${q(join(folder, "agent.sock"))}
listener = socket.socket(socket.AF_UNIX); os.path.lexists(own) and os.unlink(own); listener.bind(own); listener.listen(500)
path = lambda text: struct.pack("=H", socket.AF_UNIX) + text.encode().ljust(108, b"\\0")
held = ctypes.create_string_buffer(path(own), 110)
stop = []
def swap():
    while not stop:
        ctypes.memmove(held, path(theirs), 110); ctypes.memmove(held, path(own), 110)
thread = threading.Thread(target=swap); thread.start()
try:
    for _ in range(100):
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(0.01)
            if libc.connect(tried.fileno(), held, 110) == 0:
                try: out += tried.recv(100).decode()
                except OSError: pass
finally:
    stop.append(1); thread.join()`,
});
const OWN_SOCKET = `own = "mine.sock"
listener = socket.socket(socket.AF_UNIX); os.path.lexists(own) and os.unlink(own); listener.bind(own); listener.listen(1)
with socket.socket(socket.AF_UNIX) as mine: mine.connect(own); out = "connected"`;

const s10 = [
  ...forBoth((language) => s10With({ language })),
  ...forPython(s10With({ language: "python", isCold: true })),
];

/** No kernel is forked from an environment that imports from a folder that code can write to. */
function startCold(stage, args) {
  const writable = mkdtempSync(join(stage.folder, "in-place-"));
  const { path } = makeVenv(join(mkdtempSync(join(stage.folder, "cold-")), "venv"), writable);
  const kernel = ["--kernel", "local", "--env", path];
  return (env) => startStdio({ args: [...args, "--allow-write", writable], env, kernel });
}

function s10With({ language, isCold = false }) {
  const open = async (stage, folder, jail) => {
    const args = [...jail, ...LIMITS, "--allow-read", folder];
    const start = isCold ? startCold(stage, args) : (env) => startLocal({ args, env });
    return sessionIn(stage, await stage.ownServer(start), language);
  };
  return {
    id: "S10",
    class: "S5",
    what: `Unix sockets below --allow-read${isCold ? ", from a kernel that was started cold" : ""}`,
    async probe(stage) {
      const { folder, hits } = await listeners(stage);
      const session = await open(stage, folder, JAILED);
      const tries = { ...connections(folder), ...hopes(folder) };
      const { told, isComplete, reply } = await tryAll(session, { ...tries, "its own": OWN_SOCKET });
      expect(isComplete, `the tries ended early: ${short(reply.text.slice(-300))}`);
      for (const name of Object.keys(tries)) {
        const text = told[name] ?? "";
        expect(!text.includes(stage.flag) && !text.includes("GOT-THROUGH"), `${name}: ${short(text, 200)}`);
      }
      expect(hits() === 0, "a server was reached");
      proves(told["its own"]?.includes("connected"), `its own sockets do not work: ${told["its own"]}`);
      return `${Object.keys(tries).length} tries refused`;
    },
    async control(stage) {
      const { folder } = await listeners(stage);
      const session = await open(stage, folder, NO_JAIL);
      const { told } = await tryAll(session, connections(folder));
      for (const [name, text] of Object.entries(told))
        proves(text.includes(stage.flag) || text.includes("GOT-THROUGH"), `${name}: ${short(text, 200)}`);
      return `${Object.keys(told).length} ways work`;
    },
  };
}

/** Takes as many as possible, and keeps them until the process ends; returns how many. */
const TAKE = `taken = 0
while taken < 5000 and libc.inotify_init1(0) >= 0: taken += 1
print("took", taken)`;
const ONE = 'print("another", libc.inotify_init1(0) >= 0)';
/** The same in the background, while the shell lives. */
const takeIn = (language) => {
  if (language === "python") return inPython(language, TAKE);
  const held = inPython(language, `${TAKE}\nsys.stdout.flush()\ntime.sleep(60)`);
  return `exec 3< <(${held})\nread -r -u 3 line; echo "$line"`;
};

/** A low limit for the user, in a user namespace, so that a run does not affect other programs of this machine. */
const FEW = 32;
const withFew = ["unshare", "--user", "--map-root-user", "sh", "-c"];
withFew.push(`echo ${FEW} > /proc/sys/user/max_inotify_instances && exec "$@"`, "sh");

const a6 = forBoth((language) => ({
  id: "A6",
  class: "A2*",
  what: "all inotify instances of the server's user, from one session",
  needs: () =>
    spawnSync(withFew[0], [...withFew.slice(1), "true"]).status === 0 ? undefined : "needs user namespaces",
  async attack(stage, jail) {
    const env = { TMPDIR: mkdtempSync(join(stage.folder, "tmp-")) };
    const server = await startLocal({ args: [...jail, ...LIMITS], env, launcher: withFew });
    stage.after(() => server.stop());
    const another = { code: inPython("python", ONE) };
    const { session, text: before } = await server.run(another.code);
    proves(session, short(before));
    const taking = await server.run(takeIn(language), { language });
    const { text: neighbour } = await server.run(another.code, { session_id: session });
    // A program beside the server, of the same user in the same namespace.
    const join_ = ["--user", "--preserve-credentials", "--target", String(server.pid), "--"];
    const outside = spawnSync("nsenter", [
      ...join_,
      "python3",
      "-c",
      `import ctypes\nlibc = ctypes.CDLL(None)\n${ONE}`,
    ]);
    return { taking: taking.text, before, neighbour, outside: String(outside.stdout) + outside.stderr };
  },
  async probe(stage) {
    const { taking, before, neighbour, outside } = await this.attack(stage, JAILED);
    const [, taken] = /took (\d+)/.exec(taking) ?? [];
    proves(taken !== undefined, short(taking));
    protects(outside.includes("another True"), `a program of the user gets none: ${short(outside)}`);
    const had = before.includes("another True");
    protects(neighbour.includes("another True") === had, `a neighbour gets none: ${short(neighbour)}`);
    return `it took ${taken}`;
  },
  async control(stage) {
    const { taking, outside } = await this.attack(stage, NO_JAIL);
    proves(outside.includes("another False"), `${short(taking)}; ${short(outside)}`);
    return short(`it ${/took \d+/.exec(taking)?.[0]}, and the user's programs get none`);
  },
}));

const kinds = {
  MPTCP: "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",
  "UDP-Lite": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)",
  SCTP: "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)",
  DCCP: "socket.socket(socket.AF_INET, 6, 33)",
  vsock: "socket.socket(40, socket.SOCK_STREAM)",
  packets: "socket.socket(17, socket.SOCK_RAW, 3)",
  cryptography: "socket.socket(38, socket.SOCK_SEQPACKET)",
  "netlink of the firewall": "socket.socket(16, socket.SOCK_RAW, 12)",
  XDP: "socket.socket(44, socket.SOCK_RAW)",
  RDS: "socket.socket(21, socket.SOCK_SEQPACKET)",
  TIPC: "socket.socket(30, socket.SOCK_STREAM)",
};
/** The first unassigned number, some later ones, and existing calls that no program needs. */
const callsBeyond = [470, 471, 500, 1000, 0x3fff_ffff];

const h3 = forBoth((language) => ({
  id: "H3",
  class: "H1",
  what: "young kinds of sockets, and system calls newer than the filter",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const sockets = Object.fromEntries(Object.entries(kinds).map(([name, make]) => [name, `${make}\nout = GOT`]));
    // The filter refuses a call whatever its arguments; without a filter, strace would show that it reached the kernel.
    const calls = Object.fromEntries(
      callsBeyond.map((number) => [
        `call ${number}`,
        `out = GOT if libc.syscall(ctypes.c_long(${number}), 0, 0, 0) >= 0 else ctypes.get_errno()`,
      ]),
    );
    const { told, isComplete, reply } = await tryAll(session, { ...sockets, ...calls });
    expect(isComplete, `the tries ended early: ${short(reply.text.slice(-300))}`);
    for (const [name, text] of Object.entries(told)) expect(!text.includes("GOT-THROUGH"), `${name} is there`);
    for (const name of Object.keys(sockets))
      expect(/Errno (97|1)\]/.test(told[name]), `${name} reached the kernel: ${told[name]}`);
    for (const name of Object.keys(calls)) expect(told[name]?.trim() === "38", `${name}: ${told[name]}`);
    return `${Object.keys(told).length} refused`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("none"), language);
    const sockets = Object.fromEntries(Object.entries(kinds).map(([name, make]) => [name, `${make}\nout = GOT`]));
    const { told } = await tryAll(session, sockets);
    const open = Object.keys(told).filter((name) => told[name].includes("GOT-THROUGH"));
    proves(open.includes("MPTCP") || open.includes("UDP-Lite"), short(q(told), 300));
    return `without a filter: ${open.join(", ")}`;
  },
}));

const seccompOf = (pid) => Number(/^Seccomp:\s+(\d)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
const isBrowser = (pid) => /chrom/.test(readFileSync(`/proc/${pid}/comm`, "utf8"));

const h2 = forPython({
  id: "H2",
  class: "H1",
  what: "the browser's jail has a filter of system calls, in all its processes",
  needs: () => (hasNamespaces ? (findBrowser() ? undefined : "there is no Chromium") : NO_BROWSER_JAIL),
  async probe() {
    const isolation = await triedTier();
    const counts = await all(
      /** @type {const} */ (["jail", "double"]).map(async (kind) => {
        const sandbox = { kind, isolation };
        const browser = await startBrowser(findBrowser(), { sandbox, memoryMb: 1500, log: createLog("silent") });
        try {
          const own = descendants(process.pid).filter((pid) => isBrowser(pid));
          proves(own.length > 0, `no process of the browser was seen (${kind})`);
          for (const pid of own) expect(seccompOf(pid) === 2, `a browser's process has no filter (${kind})`);
          return `${kind}: ${own.length}`;
        } finally {
          browser.kill("the case is over");
          await browser.closed;
        }
      }),
    );
    return counts.join(", ");
  },
  async control(stage) {
    const profile = mkdtempSync(join(stage.folder, "profile-"));
    const args = ["--headless=new", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, "about:blank"];
    const env = { PATH: process.env.PATH, HOME: profile };
    const child = spawn(findBrowser(), [...args, "--remote-debugging-port=0"], { stdio: "ignore", env });
    const own = () => [child.pid, ...descendants(child.pid)].filter(isBrowser);
    try {
      await until("the browser", () => own().length > 2);
      proves(
        own().some((pid) => seccompOf(pid) === 0),
        "it has a filter of its own",
      );
      return "without it a browser with --no-sandbox has none";
    } finally {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      rmSync(profile, { recursive: true, force: true, maxRetries: 20 });
    }
  },
});
const NO_BROWSER_JAIL = "without namespaces a browser has its own sandbox alone, and is not used where that fails";

export default [...s10, ...a6, ...h3, ...h2];
