import { randomBytes, randomInt } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { probeForkJail } from "../../src/isolation/fork-jail.ts";
import type { Jail } from "../../src/isolation/jail.ts";
import { localJail } from "../../src/isolation/local-jail.ts";
import { describeWithIsolations } from "../support/isolations.ts";
import { testPython } from "../support/pythons.ts";
import { bare, forked, forkedCommand, outcome, readableByAll, spawned, type Way } from "./jailed.ts";

const isRoot = process.getuid?.() === 0;
const python = testPython("debian");
/** As in a container: calls that the machine's own filter refuses are not tested. */
const isFiltered = process.platform === "linux" && /^Seccomp:\s+2/m.test(readFileSync("/proc/self/status", "utf8"));

describeWithIsolations("code in a jail", (isolation) => {
  const hasNamespaces = isolation.tier === "namespaces";
  // A fork does not need bubblewrap.
  const ways = hasNamespaces && isolation.launcher.kind === "python" ? [spawned] : [forked, spawned];
  const folder = mkdtempSync(join(tmpdir(), "cellwright-walls-"));
  const secret = randomBytes(8).toString("hex");
  const abstractName = `cellwright-${secret}`;
  const sharedMemoryFile = `/dev/shm/cellwright-${secret}`;
  const sharedMemoryKey = randomInt(1, 2 ** 30);
  const workspaceDir = join(folder, "project");
  // An environment in the user's own folder, two levels down: its code also runs outside the jail.
  const movableDir = join(workspaceDir, "envs");
  const environmentDir = join(movableDir, "one");
  const hiddenDir = join(workspaceDir, "data");
  const tmpDir = join(folder, "tmp");
  const asksDir = join(folder, "asks");
  const openDir = join(workspaceDir, "open");
  // Without namespaces /dev/shm is the machine's: files can be opened by their exact name, but not listed.
  const leftOpen = hasNamespaces ? [] : ["read_flag_in_memory"];
  const servers = [createServer(), createServer()];
  const probes = join(folder, "probes/probes.py");
  let jail: Jail;
  let targets: string;

  beforeAll(async () => {
    chmodSync(folder, 0o777);
    const folders = [environmentDir, hiddenDir, tmpDir, asksDir, openDir, dirname(probes)];
    for (const made of folders) mkdirSync(made, { recursive: true });
    readableByAll(join(import.meta.dirname, "probes.py"), dirname(probes));
    const flagFile = join(folder, "flag");
    const hiddenFile = join(hiddenDir, "journal");
    for (const file of [flagFile, hiddenFile, sharedMemoryFile]) writeFileSync(file, secret);
    const [port] = await Promise.all([listen(servers[0], 0), listen(servers[1], `\0${abstractName}`)]);
    await outcome([python, "-c", `import ctypes; ctypes.CDLL(None).shmget(${sharedMemoryKey}, 4096, 0o1666)`]);
    for (const made of [workspaceDir, movableDir, environmentDir]) chmodSync(made, 0o777);
    jail = await localJail({
      isolation,
      ...(hasNamespaces ? {} : { tmpDir }),
      environmentPaths: [environmentDir],
      python,
      supportPaths: [dirname(probes), asksDir],
      workspaceDir,
      workspaceInPlace: true,
      hidden: [hiddenDir],
      tmpMb: 16,
    });
    const hostPid = process.pid;
    const things = { flagFile, sharedMemoryFile, hostPid, secret, port, abstractName, sharedMemoryKey, folder };
    targets = JSON.stringify({ ...things, environmentDir, movableDir, hiddenFile });
  });

  afterAll(async () => {
    for (const server of servers) server.close();
    const remove = `import ctypes; c = ctypes.CDLL(None); c.shmctl(c.shmget(${sharedMemoryKey}, 1, 0), 0, None)`;
    await outcome([python, "-c", remove]);
    rmSync(sharedMemoryFile, { force: true });
    rmSync(folder, { recursive: true, force: true });
  });

  const probe = async (way: Way): Promise<Record<string, string>> => {
    const ran = await way.run(probes, [targets], { python, jail, folder, leave: folder, env: { SECRET: secret } });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const verdicts = JSON.parse(ran.stdout);
    // The environment of a fork's parent is a zygote's, which contains no secrets.
    if (way === forked) verdicts.read_secret_of_environment = "refused: not the jail's business";
    return verdicts;
  };

  test("reaches nothing of what the same code reaches without one", async () => {
    const without = Object.entries(await probe(bare));
    const reachable = without.filter(([, verdict]) => verdict === "reached").map(([name]) => name);
    // What this machine refuses to every process proves nothing about the jail.
    const shut = without.filter(([, verdict]) => verdict !== "reached").map(([name]) => name);
    const mayBeShut = [
      ...["use_io_uring", "open_cipher_socket", "open_packet_socket"],
      ...(isFiltered ? ["clone_into_namespace", "make_user_namespace", "mount", "type_into_terminal"] : []),
    ];
    const rootOnly = [
      "open_core_pattern_for_writing",
      "write_below_proc",
      "write_to_root",
      "make_user_namespace",
      "mount",
    ];
    expect(shut.filter((name) => !mayBeShut.includes(name) && !(rootOnly.includes(name) && !isRoot))).toEqual([]);
    for (const way of ways) {
      const within = await probe(way);
      const reached = reachable.filter((name) => within[name] === "reached");
      expect({ way: way.name, reached }).toEqual({ way: way.name, reached: leftOpen });
      expect(Object.keys(within)).toEqual(without.map(([name]) => name));
    }
    expect(existsSync(join(environmentDir, "planted.pth"))).toBe(true);
  });

  test.runIf(isRoot)("nor does it when the server is an ordinary user", async () => {
    chmodSync(workspaceDir, 0o777);
    const command = forkedCommand(probes, [targets], { python, jail, folder });
    const asUser = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", ...command];
    const ran = await outcome(asUser);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const within: Record<string, string> = JSON.parse(ran.stdout.replace(/^\d+\n/, ""));
    expect(Object.keys(within).filter((name) => within[name] === "reached")).toEqual(leftOpen);
  });

  const ask = async (way: Way, code: string): Promise<string> => {
    const script = join(asksDir, `ask-${randomBytes(4).toString("hex")}.py`);
    writeFileSync(script, code);
    const ran = await way.run(script, [], { python, jail, folder });
    expect(ran.stderr).toBe("");
    return ran.stdout.trim();
  };

  describe.each(hasNamespaces ? ways : [])("$name", (way) => {
    test("it has a user, a host name, a loopback and devices of its own, and can work", async () => {
      const code = `
import errno, getpass, multiprocessing, os, pathlib, pty, socket, subprocess, tempfile, threading
assert getpass.getuser() == "cellwright" and os.getuid() == 1000 and socket.gethostname() == "cellwright"
assert [name for _, name in socket.if_nameindex()] == ["lo"]
assert sorted(os.listdir("/dev")) == sorted(["core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"] + (["console"] if os.path.exists("/dev/console") else []))
listener = socket.create_server(("127.0.0.1", 0))
refused = socket.socket().connect_ex(listener.getsockname())
assert refused == ${way === spawned && isolation.launcher.kind === "bubblewrap" ? "errno.EPERM" : 0}, refused
assert subprocess.run(["bash", "-c", "echo $HOME"], capture_output=True, text=True).stdout.strip() == os.getcwd()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
threads = [threading.Thread(target=len, args=((),)) for _ in range(8)]
[thread.start() for thread in threads] and [thread.join() for thread in threads]
with tempfile.NamedTemporaryFile() as file:
    assert file.name.startswith("/tmp/")
pty.openpty()
pathlib.Path("written").write_text("by the jail")
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 5
print("worked")`;
      expect(await ask(way, code)).toBe("worked");
      expect(existsSync(join(workspaceDir, "written"))).toBe(true);
    });

    test("its /tmp and /dev/shm are as large as its policy says, and nothing else in memory can be written", async () => {
      const code = `
import errno, os
for path in ("/tmp/x", "/dev/shm/x"):
    try:
        with open(path, "wb") as file:
            for _ in range(64): file.write(bytes(1 << 20))
    except OSError as error:
        print(path, os.stat(path).st_size >> 20 <= 17, errno.errorcode[error.errno])
for path in ("/x", "/dev/x", "/etc/x", "/proc/x"):
    try: open(path, "w")
    except OSError as error: print(path, errno.errorcode[error.errno])`;
      expect((await ask(way, code)).split("\n")).toEqual([
        "/tmp/x True ENOSPC",
        "/dev/shm/x True ENOSPC",
        "/x EROFS",
        "/dev/x EROFS",
        "/etc/x EROFS",
        "/proc/x ENOENT",
      ]);
    });
  });

  describe.each(hasNamespaces ? [] : ways)("$name, without namespaces", (way) => {
    test("it can work in folders of its own", async () => {
      const code = `
import multiprocessing, multiprocessing.shared_memory, os, pathlib, subprocess, tempfile, threading
assert subprocess.run(["bash", "-c", "echo $HOME"], capture_output=True, text=True).stdout.strip() == os.getcwd()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
assert dict(multiprocessing.Manager().dict(a=1)) == {"a": 1}
multiprocessing.shared_memory.SharedMemory(create=True, size=10).unlink()
threads = [threading.Thread(target=len, args=((),)) for _ in range(8)]
[thread.start() for thread in threads] and [thread.join() for thread in threads]
with tempfile.NamedTemporaryFile() as file:
    assert file.name.startswith("${tmpDir}/")
for folder in ("${openDir}", "."): pathlib.Path(folder, "written").write_text("by the jail")
# Beside what is protected it can work, too.
pathlib.Path("${environmentDir}").parent.joinpath("two").mkdir()
pathlib.Path("${environmentDir}").parent.joinpath("two").rmdir()
print("worked")`;
      expect(await ask(way, code)).toBe("worked");
    });
  });

  test("a Python that can jail its forks is distinguished from one that cannot", async () => {
    expect(await probeForkJail(python, isolation)).toBeUndefined();
    expect(await probeForkJail("/nonexistent/python", isolation)).toContain("/nonexistent/python");
  });
});

function listen(server: ReturnType<typeof createServer> | undefined, at: number | string): Promise<number> {
  return new Promise((resolve) => {
    const done = () => {
      const address = server?.address();
      resolve(typeof address === "object" && address ? address.port : 0);
    };
    if (typeof at === "number") server?.listen(at, "127.0.0.1", done);
    else server?.listen(at, done);
  });
}
