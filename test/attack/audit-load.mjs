// What one session leaves in the server, on disk and in memory must not affect its neighbours.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { moveIntoOverlay } from "../../dist/kernels/local/packages/overlay.js";
import { expect, protects, proves, randomFlag, short, sleep, timed, until } from "./case.mjs";
import { asFake } from "./local-forgery.mjs";
import { forPython, LIMITS, startLocal } from "./local-stage.mjs";
import { isAlive, rssMb } from "./server.mjs";
import { hasNamespaces, JAILED, tier } from "./tier.mjs";

const DISK_MB = 64;

/**
 * A server of the case's own that dies when it holds more than so much, with a neighbour in it.
 * @param {import("./stage.mjs").Stage} stage
 * @param {{ heapMb?: number, args?: string[], jail?: string, env?: NodeJS.ProcessEnv, launcher?: string[], dataDir?: string }} [how]
 */
async function serverWith(stage, { heapMb, args = [], jail = tier, ...more } = {}) {
  /** @type {NodeJS.ProcessEnv} */
  const env = { TMPDIR: mkdtempSync(join(stage.folder, "tmp-")), ...more.env };
  if (heapMb) env.NODE_OPTIONS = `--max-old-space-size=${heapMb}`;
  const server = await startLocal({ ...more, args: ["--jail", jail, ...LIMITS, ...args], env });
  stage.after(() => server.stop());
  const keep = randomFlag();
  const { session } = await server.run(`keep = "${keep}"`);
  return {
    ...server,
    async expectWell() {
      protects(isAlive(server.pid), "the server is dead");
      const reply = await server.run("keep", { session_id: session }, { timeout: 60_000 });
      protects(reply.text.includes(keep), `the neighbour lost its variable: ${short(reply.text)}`);
    },
  };
}

/** The same in a process that keeps everything in memory: whether it runs out of memory. */
function diesOf(heapMb, code) {
  const run = spawnSync(process.execPath, [`--max-old-space-size=${heapMb}`, "-e", code], { encoding: "utf8" });
  return run.status !== 0 && /heap out of memory|allocation failed/i.test(run.stderr);
}

const HEAP_MB = 192;
/** 15 million random characters, as a cell may show them. */
const shows = (number) => `for i in range(2): display({"text/html": "${number}-%d" % i + "x" * 7_500_000}, raw=True)`;

const a1 = forPython({
  id: "A1",
  class: "A2*",
  what: "what the newest cells showed stays in the server's memory",
  async probe(stage) {
    const server = await serverWith(stage, { heapMb: HEAP_MB, args: ["--disk-mb", "1024"] });
    const { session } = await server.run("0");
    const cells = stage.times(24, 16);
    for (let cell = 0; cell < cells; cell += 1) {
      const { status } = await server.run(shows(cell), { session_id: session, timeout_s: 60 });
      protects(status === "ok", `cell ${cell}: ${status}`);
    }
    await server.expectWell();
    return `${cells} cells of 15 MB in a heap of ${HEAP_MB} MB, ${Math.round(rssMb(server.pid))} MB in all`;
  },
  async control() {
    const holder =
      "const late = []; for (let cell = 0; cell < 16; cell += 1) { const shown = (cell + '-').padEnd(15e6, 'x').split(''); late.push(() => shown); }";
    proves(diesOf(HEAP_MB, holder), "a holder of 16 cells is alive");
    return "a process that keeps a function for each cell dies";
  },
});

const VARIABLES_HEAP_MB = 256;
const LISTS = 1_200_000;

const a2 = forPython({
  id: "A2",
  class: "A2*",
  what: "queued calls with variables that unfold; calls to one session without end",
  async probe(stage) {
    const server = await serverWith(stage, { heapMb: VARIABLES_HEAP_MB });
    const { session } = await server.run("import time");
    const first = server.run("time.sleep(8)", { session_id: session, wait_s: 30 });
    const lists = Array.from({ length: LISTS }, () => []);
    const queued = [];
    for (let call = 0; call < 6; call += 1) {
      queued.push(
        server
          .run("len(x)", { session_id: session, variables: { x: lists }, wait_s: 15 }, { timeout: 120_000 })
          .catch((error) => ({ text: String(error) })),
      );
      await sleep(500);
    }
    await server.expectWell();
    await first;
    const replies = await Promise.all(queued);
    const ran = replies.filter(({ text }) => text.includes(String(LISTS)));
    expect(ran.length >= 1, `none of them ran: ${short(replies[0].text)}`);
    expect(
      replies.every((reply) => ran.includes(reply) || /already has|running|queued behind/.test(reply.text)),
      `neither run nor refused: ${replies.map(({ text }) => short(text)).join("; ")}`,
    );

    await server.call("close_session", { session_id: session, delete_files: true });
    const other = await server.run("import time");
    const busy = server.run("time.sleep(6)", { session_id: other.session, wait_s: 30 });
    const many = await Promise.all(
      Array.from({ length: 200 }, () =>
        server.run("1", { session_id: other.session, wait_s: 0 }, { timeout: 120_000 }),
      ),
    );
    const refused = many.filter(({ text }) => text.includes("kernel_busy") || text.includes("queued or running cells"));
    protects(refused.length > 0 && refused.length < 200, `${refused.length} of 200 queued cells were refused`);
    await busy;
    await server.expectWell();
    return `${ran.length} of 6 ran, ${refused.length} of 200 small ones refused`;
  },
  async control() {
    const holder = `const body = '[' + Array(${LISTS}).fill('[]').join(',') + ']'; const held = []; for (let call = 0; call < 6; call += 1) held.push(JSON.parse(body)); console.log(held.length)`;
    proves(diesOf(VARIABLES_HEAP_MB, holder), "a holder of six bodies is alive");
    return "a process that holds six parsed bodies dies";
  },
});

/** 2.2 million values, the largest allowed message. */
const RAW = `b'{"data":{"application/json":[' + b"[]," * 2_200_000 + b"[]]}}"`;
const flood = (about) =>
  asFake(`raw = ${RAW}
def go():
    for _ in range(60):
        say("display_data", None, ${about}, raw=raw)
        while app.iopub_thread._really_send.__self__.waiting_bytes > 20_000_000: time.sleep(0.01)
flooding = threading.Thread(target=go)
flooding.start()`);
const floods = {
  "for an unknown request": '{"msg_id": "other"}',
  "for the cell that is over": "parent",
};

const a3 = forPython({
  id: "A3",
  alone: true,
  class: "A2*",
  what: "a kernel whose cell is over floods signed messages of millions of values",
  async probe(stage) {
    const told = [];
    for (const [name, about] of Object.entries(floods)) {
      // With memory for the send buffer: a kernel that runs out of memory does not flood.
      const server = await serverWith(stage, { args: ["--memory-mb", "2048", "--disk-mb", "4096"] });
      const { session } = await server.run("0");
      const before = cpuMs(server.pid);
      const begun = await server.run(flood(about), { session_id: session });
      proves(begun.status === "ok", short(begun.text));
      // Its own output comes after the flood.
      const { text } = await server.run("flooding.join()", { session_id: session, timeout_s: 100, wait_s: 100 });
      const used = cpuMs(server.pid) - before;
      told.push(`${name}: ${used} ms${text.includes("keeps sending far more") ? ", ended" : ""}`);
      protects(used < MAX_FLOOD_MS, `${name}: it took the server ${used} ms`);
      await server.expectWell();
      await server.stop();
    }
    return told.join("; ");
  },
  async control(stage) {
    const server = await serverWith(stage);
    const { session } = await server.run("0");
    const { text } = await server.run(asFake('say("stream", {"name": "stdout", "text": "for" + "ged"}, parent)'), {
      session_id: session,
    });
    proves(text.includes("forged"), short(text));
    const content = `{"data":{"application/json":[${"[],".repeat(2_200_000)}[]]}}`;
    const { ms } = await timed(async () => JSON.parse(content));
    proves(ms > 40, `one is read in ${Math.round(ms)} ms`);
    return `a signed message is believed; one takes ${Math.round(ms)} ms to read`;
  },
});

/** CPU time that the server may spend on a flood, on a busy machine, too. Reading all of it takes far more. */
const MAX_FLOOD_MS = 8_000;

function cpuMs(pid) {
  // After the name, in brackets, the state is the third field; CPU times are the 14th and 15th.
  const fields = readIfThere(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function readIfThere(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

const outputsOf = (server, session) => join(server.dataDir, "sessions", session, "outputs");
const usedMb = (folder) =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / 1024 / 1024;

const a4 = forPython({
  id: "A4",
  class: "A2*",
  what: "what is kept of outputs fills the disk",
  async probe(stage) {
    const server = await serverWith(stage);
    const { session } = await server.run("0");
    let peak = 0;
    let text = "";
    for (let cell = 0; cell < stage.times(12, 6); cell += 1) {
      ({ text } = await server.run(shows(cell), { session_id: session, timeout_s: 60 }));
      peak = Math.max(peak, usedMb(outputsOf(server, session)));
    }
    protects(peak <= DISK_MB, `--disk-mb ${DISK_MB}, but outputs take ${Math.round(peak)} MB`);
    expect(/Older outputs of this session were removed/.test(text), `the reply does not say it: ${short(text)}`);
    const printed = await server.run('for _ in range(4_000): print("p" * 20_000)', {
      session_id: session,
      timeout_s: 60,
    });
    expect(printed.status === "ok", short(printed.text));
    peak = Math.max(peak, usedMb(outputsOf(server, session)));
    protects(peak <= DISK_MB * 1.3, `with a long text outputs take ${Math.round(peak)} MB`);
    await server.expectWell();
    return `at most ${Math.round(peak)} MB`;
  },
  async control(stage) {
    const server = await serverWith(stage, { args: ["--disk-mb", "2048"] });
    const { session } = await server.run("0");
    for (let cell = 0; cell < 7; cell += 1) await server.run(shows(cell), { session_id: session, timeout_s: 60 });
    const used = usedMb(outputsOf(server, session));
    proves(used > 1.5 * DISK_MB, `${Math.round(used)} MB`);
    return `with --disk-mb 2048 outputs take ${Math.round(used)} MB`;
  },
});

/** Without cgroups, as for an ordinary user. */
const NO_CGROUP = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"', "sh"];
const hogs = {
  processes: `for i in 1 2 3 4 5 6 7 8; do python3 -c "import time; x = bytearray(b'x') * (90 << 20); time.sleep(15)" & done; wait; echo held`,
  "memory that only descriptors lead to": `python3 -c "
import os, time
held = [os.memfd_create(str(i)) for i in range(16)]
for fd in held:
    for _ in range(50): os.write(fd, bytes(1 << 20))
time.sleep(15)"; echo held`,
  "buffers of sockets": `python3 -c "
import socket, time
held = [socket.socketpair() for _ in range(1900)]
for one in (end for pair in held for end in pair):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    one.setblocking(False)
    try:
        while True: one.send(bytes(65536))
    except BlockingIOError: pass
time.sleep(15)"; echo held`,
  "files in memory": `for i in 1 2 3 4 5 6 7; do head -c 60000000 /dev/zero > /tmp/$i; head -c 60000000 /dev/zero > /dev/shm/$i; done; sleep 15; echo held`,
};

const a8 = [
  {
    id: "A8",
    kernel: "bash",
    class: "A2*",
    what: "without a memory cgroup: the processes of a shell, memory without a process, full sockets",
    needs: () =>
      spawnSync(NO_CGROUP[0], [...NO_CGROUP.slice(1), "true"]).status === 0 ? undefined : "mounts are refused",
    async probe(stage) {
      const args = ["--memory-mb", "128", "--log-level", "debug"];
      const server = await serverWith(stage, { launcher: NO_CGROUP, args });
      expect(/memory: rlimit/.test(server.stderr()), "there is a memory cgroup after all");
      // Without namespaces, the session has no tmpfs of its own.
      const tried = Object.entries(hogs).filter(([name]) => hasNamespaces || name !== "files in memory");
      for (const [name, code] of tried) {
        const { session } = await server.run(":", { language: "bash" });
        const reply = await server.run(code, { session_id: session, language: "bash", timeout_s: 60 });
        protects(!reply.text.includes("held"), `${name}: ${short(reply.text)}`);
        protects(/more than the limit of 128 MB/.test(reply.text), `${name}: ${short(reply.text)}`);
        await server.call("close_session", { session_id: session, delete_files: true });
      }
      await server.expectWell();
      return tried.map(([name]) => name).join(", ");
    },
    async control(stage) {
      const server = await serverWith(stage, { launcher: NO_CGROUP, args: ["--memory-mb", "4096"] });
      const code = hogs.processes.replaceAll("sleep(15)", "sleep(2)");
      const { text } = await server.run(code, { language: "bash", timeout_s: 60 });
      proves(text.includes("held"), short(text));
      return "with --memory-mb 4096 they hold 720 MB";
    },
  },
];

/** A wheel that unpacks to this many files of 9 MB. */
function bomb(folder, files) {
  mkdirSync(folder, { recursive: true });
  const made = spawnSync(
    "python3",
    [
      "-c",
      `
import zipfile
with zipfile.ZipFile(${JSON.stringify(join(folder, "bomb-1.0-py3-none-any.whl"))}, "w", zipfile.ZIP_DEFLATED) as wheel:
    names = ["bomb/__init__.py"] + ["bomb/%d.txt" % i for i in range(${files})]
    for name in names: wheel.writestr(name, "" if name.endswith(".py") else "0" * 9_000_000)
    wheel.writestr("bomb-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: bomb\\nVersion: 1.0\\n\\n")
    wheel.writestr("bomb-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    names += ["bomb-1.0.dist-info/" + name for name in ("METADATA", "WHEEL", "RECORD")]
    wheel.writestr("bomb-1.0.dist-info/RECORD", "".join(name + ",,\\n" for name in names))
`,
    ],
    { encoding: "utf8" },
  );
  proves(made.status === 0, made.stderr);
  // The default is the working directory, this repository: then no program in it is started, including uv.
  return ["--package-dir", folder, "--files-dir", folder];
}

/** With uv as the installer: the tests' environment has no pip. */
const uvDir = fileURLToPath(new URL("../../.cache/uv/bin", import.meta.url));
const installing = { PIP_NO_INDEX: "1", PATH: `${uvDir}:${process.env.PATH}` };

const a11 = forPython({
  id: "A11",
  class: "A2*",
  what: "a wheel that unpacks to more than the disk may hold",
  async probe(stage) {
    const args = bomb(join(stage.folder, "wheels"), 60);
    const server = await serverWith(stage, { args, env: installing });
    const { session } = await server.run("0");
    const packages = join(server.dataDir, "sessions", session, "run");
    let peak = 0;
    const watch = setInterval(() => {
      const taken = spawnSync("du", ["-sm", packages], { encoding: "utf8" }).stdout;
      peak = Math.max(peak, Number(taken.split("\t")[0]));
    }, 100);
    const reply = await server.call("install_packages", { session_id: session, packages: ["bomb"] });
    clearInterval(watch);
    protects(reply.isError, "it was installed");
    expect(/grew beyond the limit of 64 MB/.test(reply.text), short(reply.text, 400));
    // The kernel's own files are in the folder, too.
    protects(peak < DISK_MB + 16, `${peak} MB were unpacked`);
    expect(readdirSync(join(packages, "packages")).length === 0, "some of it is there");
    await server.expectWell();
    return `at most ${peak} of 540 MB`;
  },
  async control(stage) {
    const args = [...bomb(join(stage.folder, "wheels"), 60), "--disk-mb", "4096"];
    const server = await serverWith(stage, { args, env: installing });
    const { session } = await server.run("0");
    const reply = await server.call("install_packages", { session_id: session, packages: ["bomb"] });
    proves(!reply.isError, short(reply.text, 400));
    return "with --disk-mb 4096 it is installed";
  },
});

const HISTORY_HEAP_MB = 160;

const a12 = forPython({
  id: "A12",
  class: "A2*",
  what: "a history with much output is read when the server and a kernel start",
  async probe(stage) {
    const dataDir = mkdtempSync(join(stage.folder, "history-"));
    const args = ["--disk-mb", "1024"];
    const first = await startLocal({ dataDir, args: [...JAILED, ...LIMITS, ...args], env: {} });
    const { session } = await first.run("0");
    const cells = stage.times(20, 12);
    for (let cell = 0; cell < cells; cell += 1) await first.run(shows(cell), { session_id: session, timeout_s: 60 });
    await first.raw.close();
    await until("the server to end", () => !isAlive(first.pid), 20_000);

    const server = await serverWith(stage, { dataDir, args, heapMb: HISTORY_HEAP_MB });
    const before = rssMb(server.pid);
    const reply = await server.run("1 + 1", { session_id: session }, { timeout: 60_000 });
    protects(reply.status === "ok", short(reply.text));
    const grown = rssMb(server.pid) - before;
    protects(grown < 150, `the server grew by ${Math.round(grown)} MB`);
    const again = await server.call("wait", { session_id: session });
    protects(again.text.includes("2"), short(again.text));
    await server.expectWell();
    return `${cells * 15} MB of outputs, a heap of ${HISTORY_HEAP_MB} MB`;
  },
  async control() {
    const reader = `const history = []; for (let cell = 0; cell < 30; cell += 1) history.push(JSON.parse(JSON.stringify({ html: (cell + '-').padEnd(15e6, 'x') })))`;
    proves(diesOf(HISTORY_HEAP_MB, reader), "a reader of all of it is alive");
    return "a process that reads all of it dies";
  },
});

/** Where an installer has replaced the packages by a link. */
function linked(stage) {
  const folder = mkdtempSync(join(stage.folder, "site-"));
  const [elsewhere, overlay] = ["elsewhere", "packages"].map((name) => join(folder, name));
  for (const path of [elsewhere, overlay]) mkdirSync(path);
  writeFileSync(join(elsewhere, "precious"), "");
  symlinkSync(elsewhere, join(folder, "site"));
  return { site: join(folder, "site"), overlay, precious: join(elsewhere, "precious") };
}

const h9 = forPython({
  id: "H9",
  class: "H1",
  what: "an installer leaves a link where its packages should be",
  async probe(stage) {
    const { site, overlay, precious } = linked(stage);
    const outcome = await moveIntoOverlay(site, overlay).then(
      () => "moved",
      (error) => error.message,
    );
    expect(outcome.includes("is not a folder"), outcome);
    protects(existsSync(precious) && readdirSync(overlay).length === 0, "a file behind the link was moved");
  },
  async control(stage) {
    const { site, overlay, precious } = linked(stage);
    for (const name of readdirSync(site)) renameSync(join(site, name), join(overlay, name));
    proves(!existsSync(precious), "the file is still there");
    return "a plain rename moves the file behind the link";
  },
});

export default [...a1, ...a2, ...a3, ...a4, ...a8, ...a11, ...a12, ...h9];
