// Group A: escape and secrets.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { breakOut, GOT, subWorker } from "./break-out.mjs";
import { expect, js, proves, short } from "./case.mjs";
import { descendants, isAlive } from "./server.mjs";

const q = JSON.stringify;
const needsNetwork = (stage) =>
  stage.privateNetwork
    ? undefined
    : "needs a network namespace of its own (unshare --net), so that nothing leaves the machine";

const readsFile = (file) => `postMessage(Deno.readTextFileSync(${q(file)}))`;

const a1 = breakOut({
  id: "A1",
  what: "read, copy, link and import files of the host",
  prepare(stage) {
    const module = join(stage.folder, "flag.mjs");
    writeFileSync(module, `const flag = ${q(stage.flag)}; export default flag; globalThis.postMessage?.(flag);`);
    const json = join(stage.folder, "flag.json");
    writeFileSync(json, q(stage.flag));
    const listed = join(stage.folder, "listed");
    mkdirSync(join(listed, stage.flag), { recursive: true });
    return { module, json, listed };
  },
  ways: ({ flagFile, module, json, listed, folder }) => ({
    readTextFile: `return Deno.readTextFileSync(${q(flagFile)})`,
    "readFile, later": `return new TextDecoder().decode(await Deno.readFile(${q(flagFile)}))`,
    open: `const b = new Uint8Array(99); Deno.openSync(${q(flagFile)}).readSync(b); return new TextDecoder().decode(b)`,
    readDir: `return [...Deno.readDirSync(${q(listed)})].map((e) => e.name).join()`,
    "node:fs": `return String((await import("node:fs")).readFileSync(${q(flagFile)}))`,
    "node:fs promises": `return String(await (await import("node:fs/promises")).readFile(${q(flagFile)}))`,
    "node:fs stream": `let t = ""; for await (const c of (await import("node:fs")).createReadStream(${q(flagFile)})) t += c; return t`,
    getBuiltinModule: `return String(process.getBuiltinModule("fs").readFileSync(${q(flagFile)}))`,
    "fetch file:": `return await (await fetch("file://${flagFile}")).text()`,
    "import file": `return (await import("file://${module}")).default`,
    "import text": `return (await import("file://${flagFile}", { with: { type: "text" } })).default`,
    "import JSON": `return (await import("file://${json}", { with: { type: "json" } })).default`,
    require: `return (await import("node:module")).createRequire(${q(`${folder}/`)})(${q(json)})`,
    "worker of a file": `return await new Promise((r) => { const w = new Worker("file://${module}", { type: "module" }); w.onmessage = (e) => r(e.data); w.onerror = (e) => { e.preventDefault(); r(e.message); }; })`,
    "sub-worker": subWorker(readsFile(flagFile)),
    "sub-worker that inherits": subWorker(readsFile(flagFile), ', deno: { permissions: "inherit" }'),
    "copy into the workspace": `Deno.copyFileSync(${q(flagFile)}, W + "/copied"); return Deno.readTextFileSync(W + "/copied")`,
    "hard link into the workspace": `Deno.linkSync(${q(flagFile)}, W + "/linked"); return Deno.readTextFileSync(W + "/linked")`,
    "symlink into the workspace": `Deno.symlinkSync(${q(flagFile)}, W + "/symlinked"); return Deno.readTextFileSync(W + "/symlinked")`,
    "symlink by node:fs": `(await import("node:fs")).symlinkSync(${q(flagFile)}, W + "/symlinked2"); return Deno.readTextFileSync(W + "/symlinked2")`,
    "out of the workspace by ..": `return Deno.readTextFileSync(W + "/../".repeat(20) + ${q(flagFile.slice(1))})`,
    "rename into the workspace": `Deno.writeTextFileSync(${q(join(folder, "moved"))}, Deno.readTextFileSync(${q(flagFile)})); Deno.renameSync(${q(join(folder, "moved"))}, W + "/moved"); return Deno.readTextFileSync(W + "/moved")`,
    "mount a folder": `#py\nimport os, pyodide_js\nos.makedirs("/stolen", exist_ok=True)\npyodide_js.mountNodeFS("/stolen", ${q(folder)})\nopen("/stolen/flag.txt").read()`,
    "mount the root by FS": `#py\nimport os, js, pyodide_js\nos.makedirs("/rooted", exist_ok=True)\noptions = js.Object.new()\noptions.root = "/"\npyodide_js.FS.mount(pyodide_js.FS.filesystems.NODEFS, options, "/rooted")\nopen("/rooted" + ${q(flagFile)}).read()`,
    "change the mount's root": `#py\nimport pyodide_js\nmount = pyodide_js.FS.lookupPath("/workspace").node.mount\nroot = mount.opts.root\nmount.opts.root = ${q(folder)}\ntry:\n    text = open("/workspace/flag.txt").read()\nfinally:\n    mount.opts.root = root\ntext`,
    "Function constructor": `return [].constructor.constructor("return Deno")().readTextFileSync(${q(flagFile)})`,
    "node:vm": `return (await import("node:vm")).runInThisContext("Deno").readTextFileSync(${q(flagFile)})`,
    write: `Deno.writeTextFileSync(${q(join(folder, "written"))}, "x"); return ${GOT}`,
  }),
  hopes: ({ flagFile }) => ({
    "Python's open": `#py\nopen(${q(flagFile)}).read()`,
    "/proc/self/root": `return Deno.readTextFileSync("/proc/self/root" + ${q(flagFile)})`,
    "/proc/1/root": `return Deno.readTextFileSync("/proc/1/root" + ${q(flagFile)})`,
    "/proc/self/cwd": `return Deno.readTextFileSync("/proc/self/cwd" + ${q(flagFile)})`,
    "/etc/shadow": `const text = Deno.readTextFileSync("/etc/shadow"); return text && ${GOT}`,
    "/proc/self/mem": `Deno.openSync("/proc/self/mem"); return ${GOT}`,
    "/proc/self/fd/0": `Deno.openSync("/proc/self/fd/0"); return ${GOT}`,
    "sub-worker that asks for all": subWorker(
      readsFile(flagFile),
      ", deno: { permissions: { read: true, net: true, run: true } }",
    ),
    "ask for permission": `await Deno.permissions.request({ name: "read" }); return Deno.readTextFileSync(${q(flagFile)})`,
    "sqlite attach": `const { DatabaseSync } = await import("node:sqlite"); const d = new DatabaseSync(":memory:"); d.exec("ATTACH '/etc/passwd' AS x"); return ${GOT}`,
    "sqlite vacuum into": `const { DatabaseSync } = await import("node:sqlite"); const d = new DatabaseSync(":memory:"); d.exec("CREATE TABLE t(a); VACUUM INTO '${dirname(flagFile)}/vacuumed'"); return ${GOT}`,
    "heap snapshot": `(await import("node:v8")).writeHeapSnapshot("${dirname(flagFile)}/heap"); return ${GOT}`,
    loadEnvFile: `process.loadEnvFile(${q(flagFile)}); return ${GOT}`,
    "process.binding": `return process.binding("fs").readFileUtf8(${q(flagFile)}, 0)`,
    "import npm": `await import("npm:left-pad"); return ${GOT}`,
    "import https": `await import("https://127.0.0.1:1/a.ts"); return ${GOT}`,
    "Deno.dlopen by the ops": `Deno[Deno.internal].core.ops.op_napi_open("/lib/x86_64-linux-gnu/libc.so.6", globalThis, () => {}, () => {}, ""); return ${GOT}`,
    "self-update of Deno": `await Deno[Deno.internal].core.ops.op_desktop_apply_patch(new Uint8Array(64)); return ${GOT}`,
    wasi: `const { WASI } = await import("node:wasi"); new WASI({ version: "preview1", preopens: { "/": "/" } }); return ${GOT}`,
  }),
});

const a2 = breakOut({
  id: "A2",
  what: "list processes, signal and trace them",
  prepare(stage) {
    const victim = spawn("sleep", ["600"], { stdio: "ignore" });
    stage.after(() => victim.kill("SIGKILL"));
    return { victim };
  },
  // A way that signals must not kill another one's victim; `prepare` starts a new one for each.
  effect: ({ victim }) => victim.exitCode !== null || victim.signalCode !== null || !isAlive(victim.pid),
  ways: ({ victim }) => ({
    "list /proc": `return [...Deno.readDirSync("/proc")].some((e) => e.name === "${victim.pid}") ? ${GOT} : "none"`,
    "command line": `return Deno.readTextFileSync("/proc/${victim.pid}/cmdline").includes("sleep") ? ${GOT} : "none"`,
    "process.kill 0": `process.kill(${victim.pid}, 0); return ${GOT}`,
    "process.kill": `process.kill(${victim.pid}, "SIGTERM"); return "sent"`,
    "Deno.kill": `Deno.kill(${victim.pid}, "SIGKILL"); return "sent"`,
  }),
  hopes: ({ serverPid }) => ({
    "signal the server": `process.kill(${serverPid}, 0); return ${GOT}`,
    "signal the parent": `process.kill(process.ppid, 0); return ${GOT}`,
    "signal the group": `process.kill(0, 0); return ${GOT}`,
    "signal everybody": `process.kill(-1, 0); return ${GOT}`,
    "Python's os.kill": `#py\nimport os\nos.kill(${serverPid}, 0)\n"-".join(["GOT", "THROUGH"])`,
  }),
});

const a3 = breakOut({
  id: "A3",
  what: "environment and command line of kernel and server",
  ways: () => ({
    "Deno.env": "return JSON.stringify(Deno.env.toObject())",
    "process.env": "return JSON.stringify({ ...process.env })",
    "one variable": 'return Deno.env.get("CELLWRIGHT_ATTACK_FLAG")',
    "/proc/self/environ": 'return Deno.readTextFileSync("/proc/self/environ")',
    "sub-worker": subWorker("postMessage(JSON.stringify(Deno.env.toObject()))"),
  }),
  hopes: ({ serverPid }) => ({
    "os.environ": "#py\nimport os\nstr(dict(os.environ))",
    "parent's environ": 'return Deno.readTextFileSync("/proc/" + Deno.ppid + "/environ")',
    "server's environ": `return Deno.readTextFileSync("/proc/${serverPid}/environ")`,
    "server's command line": `return Deno.readTextFileSync("/proc/${serverPid}/cmdline") && ${GOT}`,
    "Deno.args": `return Deno.args.length > 0 ? ${GOT} : "none"`,
    hostname: `return Deno.hostname() && ${GOT}`,
    "node:os": `return (await import("node:os")).userInfo().username && ${GOT}`,
  }),
});

const a4 = breakOut({
  id: "A4",
  what: "another session's workspace, journal, run folder and claim",
  prepare(_, { neighbour }) {
    // A sibling folder whose path starts with that of an allowed one.
    return { journal: join(neighbour, "journal.ndjson") };
  },
  ways: ({ sessions, neighbour, journal }) => ({
    "its file": `return Deno.readTextFileSync(${q(`${neighbour}/workspace/secret.txt`)})`,
    "its journal": `return Deno.readTextFileSync(${q(journal)})`,
    "its record": `return Deno.readTextFileSync(${q(`${neighbour}/session.json`)}) && ${GOT}`,
    "all sessions": `return [...Deno.readDirSync(${q(sessions)})].length > 0 ? ${GOT} : "none"`,
    "its run folder": `return [...Deno.readDirSync(${q(`${neighbour}/run`)})].length > 0 ? ${GOT} : "none"`,
    "a file for it": `Deno.writeTextFileSync(${q(`${neighbour}/workspace/planted.txt`)}, "x"); Deno.removeSync(${q(`${neighbour}/workspace/planted.txt`)}); return ${GOT}`,
    "mount it": `#py\nimport os, pyodide_js\nos.makedirs("/theirs", exist_ok=True)\npyodide_js.mountNodeFS("/theirs", ${q(`${neighbour}/workspace`)})\nopen("/theirs/secret.txt").read()`,
  }),
  hopes: () => ({
    "own journal": `const text = Deno.readTextFileSync(W + "/../journal.ndjson"); return text && ${GOT}`,
    "own run folder": `return [...Deno.readDirSync(W + "/../run")] && ${GOT}`,
    "sibling with the same prefix": `Deno.writeTextFileSync(W + "0", "x"); return ${GOT}`,
  }),
});

const greet = (how) => `${how}; await new Promise((r) => setTimeout(r, 300)); return "tried"`;

const a5 = breakOut({
  id: "A5",
  what: "loopback: TCP, UDP, HTTP, WebSocket, listening",
  ways: ({ canary: { port, udpPort } }) => ({
    fetch: `return await (await fetch("http://127.0.0.1:${port}/")).text()`,
    "fetch localhost": `return await (await fetch("http://localhost:${port}/")).text()`,
    "Deno.connect": greet(`const c = await Deno.connect({ hostname: "127.0.0.1", port: ${port} })`),
    "node:net": greet(`(await import("node:net")).connect(${port}, "127.0.0.1").on("error", () => {})`),
    "node:http": greet(`(await import("node:http")).get("http://127.0.0.1:${port}/").on("error", () => {})`),
    WebSocket: greet(`const s = new WebSocket("ws://127.0.0.1:${port}/"); s.onerror = (e) => e.preventDefault?.()`),
    "node:dgram": greet(
      `const s = (await import("node:dgram")).createSocket("udp4"); s.on("error", () => {}); s.send("x", ${udpPort}, "127.0.0.1", () => {})`,
    ),
    pyfetch: `#py\nfrom pyodide.http import pyfetch\nawait (await pyfetch("http://127.0.0.1:${port}/")).string()`,
    "Deno.listen": `Deno.listen({ port: 0 }).close(); return ${GOT}`,
    "sub-worker": subWorker(
      `fetch("http://127.0.0.1:${port}/").then((r) => r.text()).then(postMessage, (e) => postMessage(e.message))`,
    ),
  }),
  hopes: ({ canary: { port } }) => ({
    "Python's socket": `#py\nimport socket\nsocket.create_connection(("127.0.0.1", ${port}), 2).recv(99)`,
    urllib: `#py\nimport urllib.request\nurllib.request.urlopen("http://127.0.0.1:${port}/", timeout=2).read()`,
    open_url: `#py\nfrom pyodide.http import open_url\nopen_url("http://127.0.0.1:${port}/").read()`,
    tls: `return String(await Deno.connectTls({ hostname: "127.0.0.1", port: ${port} }))`,
    http2: greet(`(await import("node:http2")).connect("http://127.0.0.1:${port}").on("error", () => {})`),
    WebTransport: `const t = new WebTransport("https://127.0.0.1:${port}/"); await t.ready; return ${GOT}`,
    EventSource: greet(`new EventSource("http://127.0.0.1:${port}/").onerror = () => {}`),
    inspector: `(await import("node:inspector")).open(0); return ${GOT}`,
    "Deno.serve": `Deno.serve({ port: 0 }, () => new Response("x")); return ${GOT}`,
    vsock: `await Deno.connect({ transport: "vsock", cid: 1, port: 9 }); return ${GOT}`,
  }),
});

const runs = (command, file) => ({
  "Deno.Command": `return new TextDecoder().decode(new Deno.Command(${q(command[0])}, { args: ${q([...command.slice(1), "cat", file])} }).outputSync().stdout)`,
  execFile: `return String((await import("node:child_process")).execFileSync(${q(command[0])}, ${q([...command.slice(1), "cat", file])}))`,
});

const a6 = breakOut({
  id: "A6",
  what: "unshare, mount, chroot: new namespaces through any process",
  ways: ({ flagFile }) => runs(["unshare", "--user", "--map-root-user"], flagFile),
  hopes: () => ({
    chroot: '#py\nimport os\nos.chroot("/")\n"-".join(["GOT", "THROUGH"])',
    "Deno.chdir": `Deno.chdir("/etc"); return ${GOT}`,
    setuid: `process.setuid(1); return ${GOT}`,
    umask: `Deno.umask(0); return ${GOT}`,
  }),
});

const opens = (path) => `Deno.openSync(${q(path)}, { write: true }).close(); return ${GOT}`;

const a7 = breakOut({
  id: "A7",
  what: "write below /proc and /sys: core_pattern, cgroups, release_agent",
  ways: () => ({ comm: opens("/proc/self/comm"), "oom score": opens("/proc/self/oom_score_adj") }),
  // Only opened: a write there could do harm.
  hopes: () =>
    Object.fromEntries(
      [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/release_agent",
      ].map((path) => [path, opens(path)]),
    ),
});

const a8 = breakOut({
  id: "A8",
  what: "system calls by FFI, native modules, ctypes",
  ways: () => ({
    "Deno.dlopen": `const libc = Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } }); return libc.symbols.getpid() > 0 ? ${GOT} : "none"`,
    "sub-worker": subWorker(
      `const libc = Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } }); postMessage(libc.symbols.getpid() > 0 ? ${GOT} : "none")`,
    ),
  }),
  hopes: () => ({
    ctypes: '#py\nimport ctypes\nctypes.CDLL("libc.so.6").getpid() and "-".join(["GOT", "THROUGH"])',
    "process.dlopen": `process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6"); return ${GOT}`,
    require: `(await import("node:module")).createRequire("/")("/lib/x86_64-linux-gnu/libc.so.6"); return ${GOT}`,
    "sqlite extension": `const { DatabaseSync } = await import("node:sqlite"); new DatabaseSync(":memory:", { allowExtension: true }); return ${GOT}`,
    UnsafePointer: `Deno.UnsafePointerView.getCString(Deno.UnsafePointer.create(4096n)); return ${GOT}`,
    "emscripten's dlopen": `const m = W && globalThis.pyodide?._module; m?.loadDynamicLibrary?.("/lib/x86_64-linux-gnu/libc.so.6"); return "none"`,
  }),
});

const a9 = breakOut({
  id: "A9",
  what: "devices: open, make",
  effect: (_, { workspace }) => {
    const find = spawnSync("find", [workspace, "-type", "c,b,p,s"], { encoding: "utf8" });
    return find.stdout !== "";
  },
  ways: () => ({
    "/dev/zero": `const b = new Uint8Array(4); Deno.openSync("/dev/zero").readSync(b); return ${GOT}`,
    "mknod by a process": `new Deno.Command("mkfifo", { args: [W + "/fifo"] }).outputSync(); return "tried"`,
  }),
  hopes: () => ({
    ...Object.fromEntries(
      ["/dev/kvm", "/dev/vda", "/dev/mem", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/shm/x"].map((path) => [
        path,
        opens(path),
      ]),
    ),
    "os.mknod": '#py\nimport os, stat\nos.mknod("/workspace/device", stat.S_IFCHR | 0o666, os.makedev(1, 5))',
    "os.mkfifo": '#py\nimport os\nos.mkfifo("/workspace/fifo2")',
  }),
});

const a10 = breakOut({
  id: "A10",
  what: "Unix sockets: of daemons, abstract, own",
  ways: ({ canary: { socketPath } }) => ({
    "Deno.connect": greet(`await Deno.connect({ transport: "unix", path: ${q(socketPath)} })`),
    "node:net": greet(`(await import("node:net")).connect(${q(socketPath)}).on("error", () => {})`),
    "own socket": `Deno.listen({ transport: "unix", path: W + "/own.sock" }).close(); return ${GOT}`,
  }),
  hopes: ({ canary: { abstractName } }) => ({
    abstract: greet(`await Deno.connect({ transport: "unix", path: "\\0" + ${q(abstractName)} })`),
    "abstract by node:net": greet(
      `(await import("node:net")).connect("\\0" + ${q(abstractName)}).on("error", () => {})`,
    ),
    ...Object.fromEntries(
      [
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/private",
        "/run/dbus/system_bus_socket",
      ].map((path) => [path, `await Deno.connect({ transport: "unix", path: ${q(path)} }); return ${GOT}`]),
    ),
  }),
});

const a11 = {
  id: "A11",
  class: "S5",
  what: "privileges of the kernel's process; setuid files in the workspace",
  async probe(stage) {
    const told = [];
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const before = new Set(descendants(server.pid));
      const session = await stage.session(server);
      await session.run(
        js(
          'Deno.writeTextFileSync(W + "/suid", "x"); Deno.chmodSync(W + "/suid", 0o6777); Deno.chmodSync(W, 0o777); return 1',
        ),
      );
      const { mode } = statSync(join(session.workspace, "suid"));
      const closed = [session.workspace, dirname(session.workspace), join(server.dataDir, "sessions")].some(
        (folder) => (statSync(folder).mode & 0o011) === 0,
      );
      expect((mode & 0o6000) === 0 || closed, "a setuid file can be reached by other users of the machine");
      if (wall === "none") continue;
      const deno = descendants(server.pid).filter((pid) => !before.has(pid) && statusOf(pid).Name === "deno");
      expect(deno.length === 1, `${deno.length} new kernel processes`);
      const { CapEff, CapBnd, NoNewPrivs, Seccomp } = statusOf(deno[0]);
      expect(/^0+$/.test(CapEff), `CapEff is ${CapEff}`);
      expect(NoNewPrivs === "1", `NoNewPrivs is ${NoNewPrivs}`);
      told.push(`CapEff 0, CapBnd ${/^0+$/.test(CapBnd) ? "0" : CapBnd}, NoNewPrivs 1, Seccomp ${Seccomp}`);
    }
    return told.join();
  },
  async control() {
    const child = spawn("sleep", ["5"], { stdio: "ignore" });
    const { CapEff, NoNewPrivs } = statusOf(child.pid);
    child.kill("SIGKILL");
    proves(NoNewPrivs === "0" || !/^0+$/.test(CapEff), "a plain child has no privileges to lose");
    return `a plain child: CapEff ${CapEff}, NoNewPrivs ${NoNewPrivs}`;
  },
};

function statusOf(pid) {
  return Object.fromEntries(
    [...readFileSync(`/proc/${pid}/status`, "utf8").matchAll(/^(\w+):\s*(.*)$/gm)].map(([, name, value]) => [
      name,
      value,
    ]),
  );
}

const a12 = breakOut({
  id: "A12",
  what: "DNS: resolver, direct, by name, DoH",
  needs: needsNetwork,
  ways: ({ canary: { dnsPort, port } }) => ({
    "named server": `return await Deno.resolveDns("a1.example", "A", { nameServer: { ipAddr: "127.0.0.1", port: ${dnsPort} } })`,
    "system's server": 'return await Deno.resolveDns("a2.example", "A")',
    "node:dns resolve": greet('(await import("node:dns")).resolve4("a3.example", () => {})'),
    "by fetch": 'return await (await fetch("http://a5.example/")).text()',
    "by connect": 'return await Deno.connect({ hostname: "a6.example", port: 80 })',
    "UDP to port 53": greet(
      `const s = (await import("node:dgram")).createSocket("udp4"); s.on("error", () => {}); s.send("x", ${dnsPort}, "127.0.0.1", () => {})`,
    ),
    "DNS over HTTP": `return await (await fetch("http://127.0.0.1:${port}/dns-query?name=a7.example")).text()`,
  }),
  hopes: () => ({
    "node:dns lookup": `await (await import("node:dns/promises")).lookup("localhost"); return ${GOT}`,
    "Python's getaddrinfo": '#py\nimport socket\nstr(socket.getaddrinfo("a8.example", 80))',
  }),
});

const hosts = ["169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1"];
const a13 = breakOut({
  id: "A13",
  what: "metadata service, IPv6, private networks",
  needs: needsNetwork,
  ways: () =>
    Object.fromEntries(
      hosts.map((host) => [host, `return await (await fetch("http://${host}/latest/meta-data/")).text()`]),
    ),
  hopes: () => ({
    "IPv6 link-local": greet('await Deno.connect({ hostname: "fe80::1%lo", port: 80 })'),
    "IPv4 in IPv6": 'return await (await fetch("http://[::ffff:169.254.169.254]/")).text()',
    decimal: 'return await (await fetch("http://2852039166/")).text()',
  }),
});

const payload = Buffer.from("import builtins; builtins.ran_payload = True").toString("base64");
const a15 = {
  id: "A15",
  class: "S5",
  what: "a CSV that holds code is read and analysed",
  async probe(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]));
    const csv = `name,value\n"=cmd|' /C calc'!A0","exec(__import__('base64').b64decode('${payload}'))"\n`;
    await session.call("write_file", { path: "data.csv", content: csv });
    await session.call("read_file", { path: "data.csv" });
    const reply = await session.run(
      'import builtins, csv\nrows = list(csv.reader(open("data.csv")))\nlen(rows), hasattr(builtins, "ran_payload")',
    );
    expect(reply.text.includes("(2, False)"), short(reply.text));
  },
  async control(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]));
    const reply = await session.run(
      `import builtins\nexec(__import__('base64').b64decode('${payload}'))\nhasattr(builtins, "ran_payload")`,
    );
    proves(reply.text.includes("True"), short(reply.text));
    return "it runs when the agent runs it";
  },
};

/** What one session leaves and the next searches for, in places that they could share. */
const traces = {
  "/tmp": ['open("/tmp/left.txt", "w").write(mark)', 'open("/tmp/left.txt").read()'],
  "home folder": [
    'import os; os.makedirs(os.path.expanduser("~"), exist_ok=True); open(os.path.expanduser("~/left.txt"), "w").write(mark)',
    'import os; open(os.path.expanduser("~/left.txt")).read()',
  ],
  "Cache API": [
    js('await (await caches.open("left")).put("http://left/", new Response(mark)); return "put"'),
    js('return await (await (await caches.open("left")).match("http://left/")).text()'),
  ],
  globals: [js("globalThis.left = mark; return 1"), js("return globalThis.left")],
  "a module": ["import json; json.left = mark", "import json; json.left"],
};
const marked = (code, mark) => `mark = ${q(mark)}\nimport js\njs.mark = mark\n${code}`;

const a16 = {
  id: "A16",
  class: "S5",
  what: "reach another session through /tmp, /dev/shm, Cache API, BroadcastChannel",
  async probe(stage) {
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const [one, other] = [await stage.session(server), await stage.session(server)];
      for (const [name, [leave, look]] of Object.entries(traces)) {
        const left = await one.run(marked(leave, stage.flag));
        expect(left.status === "ok", `${name}: nothing was left: ${short(left.text)}`);
        const found = await other.run(look);
        expect(!found.whole.includes(stage.flag), `${name} is shared between sessions, --jail ${wall}`);
      }
      await other.run(
        js(
          'globalThis.heard = []; for (const n of ["left", ""]) new BroadcastChannel(n).onmessage = (e) => heard.push(e.data); return 1',
        ),
      );
      await one.run(
        marked(
          js(
            'for (const n of ["left", ""]) new BroadcastChannel(n).postMessage(mark); await new Promise((r) => setTimeout(r, 300)); return 1',
          ),
          stage.flag,
        ),
      );
      const heard = await other.run(js("return JSON.stringify(heard)"));
      expect(!heard.whole.includes(stage.flag), "BroadcastChannel reaches another session");
      for (const path of ["/dev/shm/left", "/tmp/left"]) {
        const made = await one.run(js(`Deno.writeTextFileSync(${q(path)}, "x"); return ${GOT}`));
        expect(!made.whole.includes("GOT-THROUGH"), `${path} of the machine can be written, --jail ${wall}`);
      }
    }
  },
  async control(stage) {
    for (const [name, [leave, look]] of Object.entries(traces)) {
      await stage.bare.run(marked(leave, stage.flag));
      const found = await stage.bare.run(look);
      proves(found.includes(stage.flag), `${name}: ${short(found)}`);
    }
    return `${Object.keys(traces).length} traces stay in one kernel`;
  },
};

const planted = `
import os, site, sys
text = "import builtins; builtins.planted = True"
told = []
for folder in ["/workspace", "/site", os.path.expanduser("~"), "/lib/python3.14/site-packages", os.path.expanduser("~/.ipython/profile_default/startup")]:
    for name in ["sitecustomize.py", "usercustomize.py", "planted.pth", "00-planted.py", "_cellwright.py"]:
        try:
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
            told.append(f"{folder}/{name}")
        except OSError:
            pass
" ".join(told)`;

const a17 = {
  id: "A17",
  class: "S5",
  what: "leave sitecustomize, .pth and startup files for the next session",
  async probe(stage) {
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const session = await stage.session(server);
      const told = await session.run(planted);
      expect(!told.text.includes("/site/"), `the folder for packages can be written: ${short(told.text)}`);
      for (const again of [await stage.session(server), session]) {
        if (again === session) await session.call("reset_session");
        const reply = await again.run('import builtins\nhasattr(builtins, "planted")');
        expect(
          reply.text.includes("False"),
          `it ran in ${again === session ? "the same session, reset" : "the next session"}`,
        );
      }
      await session.close();
    }
  },
  async control(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]));
    const reply = await session.run(`${planted}\nimport sitecustomize, builtins\nhasattr(builtins, "planted")`);
    proves(reply.text.includes("True"), short(reply.text));
    return "the planted file is live code";
  },
};

const poison = `
import builtins, textwrap, sys, random, js
builtins.poison = "poisoned"
textwrap.dedent = lambda text: "poisoned"
sys.modules["csv"] = "poisoned"
js.globalThis.poison = "poisoned"
random.seed(1)
`;
const taste =
  'import builtins, textwrap, sys, js, random\nhasattr(builtins, "poison"), textwrap.dedent("1"), sys.modules.get("csv") == "poisoned", hasattr(js, "poison"), random.random()';

const a18 = {
  id: "A18",
  class: "S5",
  what: "poison a warm kernel: claim, use, return",
  async probe(stage) {
    const { startStdio } = await import("./server.mjs");
    const server = await stage.ownServer((env) => startStdio({ args: ["--warm", "1", "--memory-mb", "256"], env }));
    const numbers = [];
    for (let round = 0; round < stage.times(6, 3); round += 1) {
      const session = await stage.session(server, taste);
      expect(session.reply.text.includes("(False, '1', False, False"), `round ${round}: ${short(session.reply.text)}`);
      numbers.push(/0\.\d+/.exec(session.reply.text)?.[0]);
      await session.run(poison);
      if (round % 2) await session.call("reset_session");
      const again = round % 2 ? await session.run(taste) : undefined;
      expect(!again || again.text.includes("(False, '1', False, False"), "a reset session is still poisoned");
      await session.close();
    }
    expect(new Set(numbers).size === numbers.length, `two kernels gave the same random number: ${numbers.join()}`);
    // Its warm kernel comes and goes, which is not a leak.
    await server.stop();
    await stage.forget(server);
  },
  async control(stage) {
    const session = await stage.session(await stage.server(stage.walls[0]));
    await session.run(poison);
    const reply = await session.run(taste);
    proves(reply.text.includes("(True, 'poisoned', True, True"), short(reply.text));
    return "the same kernel stays poisoned";
  },
};

export default [
  a1,
  a2,
  a3,
  a4,
  a5,
  a6,
  a7,
  a8,
  a9,
  a10,
  a11,
  a12,
  a13,
  {
    id: "A14",
    class: "S5",
    what: "allow-list mode: CNAME, redirect, SNI",
    notApplicable: "there is no allow-list mode: a WASM kernel never has network (A5, A12, A13)",
  },
  a15,
  a16,
  a17,
  a18,
];
