import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Isolation, Jail } from "../../../src/isolation/jail.ts";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { describeWithIsolations } from "../../support/isolations.ts";
import { testPython } from "../../support/pythons.ts";
import { bare, forked, spawned, type Way } from "../jailed.ts";

const python = testPython("debian");

/** What code in a jail can connect to and signal, where a filter alone cannot decide. */
describeWithIsolations("code in a jail that sees folders of others", (isolation) => {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-gate-"));
  const [workspaceDir, readable, tmpDir] = ["own", "readable", "tmp"].map((name) => join(folder, name)) as string[];
  const foreign = join(readable ?? "", "foreign.sock");
  const script = join(readable ?? "", "script.py");
  const hasNamespaces = isolation.tier === "namespaces";
  // Bubblewrap has no gate: everything is refused there, unless the Python launcher is used.
  const judges = isolation.launcher.kind === "python";
  let server: Server;
  let reached = 0;

  beforeAll(async () => {
    for (const made of [workspaceDir, readable, tmpDir]) mkdirSync(made ?? "", { recursive: true });
    chmodSync(folder, 0o755);
    server = createServer((socket) => {
      reached += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(foreign, resolve));
  });
  afterAll(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const jailOf = (how: Isolation): Promise<Jail> =>
    localJail({
      isolation: how,
      environmentPaths: [],
      python,
      workspaceDir: workspaceDir ?? "",
      allowRead: [readable ?? ""],
      ...(hasNamespaces ? {} : { tmpDir }),
    });

  const ask = async (code: string, { way = spawned as Way, how = isolation } = {}): Promise<string[]> => {
    writeFileSync(script, `import ctypes, errno, os, signal, socket, sys, threading\n${code}`);
    const ran = await way.run(script, [], { python, jail: await jailOf(how), folder });
    expect(ran.stderr).toBe("");
    return ran.stdout.trim().split("\n");
  };

  const connectTo = (path: string) =>
    `print(errno.errorcode.get(socket.socket(socket.AF_UNIX).connect_ex("${path}")))\n`;

  test("Unix sockets of others are out of reach, and are not without it", async () => {
    expect(await ask(connectTo(foreign), { way: bare })).toEqual(["None"]);
    const before = reached;
    const refusal = judges ? "EACCES" : "EPERM";
    expect(await ask(connectTo(foreign))).toEqual([refusal]);
    expect(await ask(connectTo(foreign), { way: forked })).toEqual(["EACCES"]);
    // The same in other ways: a link in its own folder, an abstract name, a datagram, a socket pair.
    const tries = `
os.symlink("${foreign}", "link")
print(errno.errorcode[socket.socket(socket.AF_UNIX).connect_ex("link")])
print(errno.errorcode[socket.socket(socket.AF_UNIX).connect_ex("\\0abstract")])
for make in (socket.socket, socket.socketpair):
    try: print(make(socket.AF_UNIX, socket.SOCK_DGRAM))
    except OSError as error: print(errno.errorcode[error.errno])
os.unlink("link")`;
    expect(await ask(tries)).toEqual([refusal, refusal, "EPERM", "EPERM"]);
    expect(reached).toBe(before);
  });

  test("no file becomes a program with its owner's rights", async () => {
    const code = `
def tried(act):
    try: return act() and None
    except OSError as error: return errno.errorcode[error.errno]
os.close(os.open("plain", os.O_CREAT | os.O_WRONLY, 0o755))
print(tried(lambda: os.chmod("plain", 0o4755)), tried(lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o2755)))
print(tried(lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755)), tried(lambda: os.mknod("node", 0o104755)))
print(tried(lambda: os.chmod("plain", 0o1755)), oct(os.stat("plain").st_mode & 0o7777))
for name in ("plain", "made", "node"):
    if os.path.exists(name): os.unlink(name)`;
    const expected = ["EPERM EPERM", "EPERM EPERM", "None 0o1755"];
    for (const way of [spawned, forked]) expect(await ask(code, { way })).toEqual(expected);
  });

  describe.each(judges ? [1] : [])("where connections are judged", () => {
    test("its own Unix sockets can be used, by both ways to name them", async () => {
      const code = `
listener = socket.socket(socket.AF_UNIX); listener.bind("own.sock"); listener.listen()
for name in ("own.sock", os.path.abspath("own.sock")):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(name)
        client.sendall(b"hello")
        print(listener.accept()[0].recv(5).decode(), client.gettimeout())
os.unlink("own.sock")`;
      expect(await ask(code)).toEqual(["hello 5.0", "hello 5.0"]);
    });

    test("an address that changes after the look leads nowhere else", async () => {
      const before = reached;
      const code = `
libc = ctypes.CDLL(None, use_errno=True)
listener = socket.socket(socket.AF_UNIX); listener.bind("own.sock"); listener.listen(4096)
own = b"\\x01\\x00" + os.path.abspath("own.sock").encode().ljust(108, b"\\0")
other = b"\\x01\\x00" + b"${foreign}".ljust(108, b"\\0")
address = ctypes.create_string_buffer(own, 110)
over = False
def swap():
    while not over:
        ctypes.memmove(address, other, 110)
        ctypes.memmove(address, own, 110)
threading.Thread(target=swap, daemon=True).start()
done = 0
for _ in range(1500):
    with socket.socket(socket.AF_UNIX) as client:
        done += libc.connect(client.fileno(), address, 110) == 0
over = True
os.unlink("own.sock")
print(done > 0)`;
      expect(await ask(code)).toEqual(["True"]);
      expect(reached).toBe(before);
    });

    test("a descriptor that is replaced after the look is not connected", async () => {
      const before = reached;
      const code = `
libc = ctypes.CDLL(None, use_errno=True)
other = ctypes.create_string_buffer(b"\\x01\\x00" + b"${foreign}".ljust(108, b"\\0"), 110)
spare = socket.socket(socket.AF_UNIX)
target = socket.socket(socket.AF_UNIX)
over = False
def swap():
    while not over: os.dup2(spare.fileno(), target.fileno())
threading.Thread(target=swap, daemon=True).start()
print(sum(libc.connect(target.fileno(), other, 110) == 0 for _ in range(1500)))
over = True`;
      expect(await ask(code)).toEqual(["0"]);
      expect(reached).toBe(before);
    });
  });

  describe.each(hasNamespaces ? [] : [1])("without namespaces", () => {
    const victim = join(readable ?? "", "attributes");
    const attempts = `
import shutil, subprocess, tarfile
def tried(act):
    try: return act()
    except OSError as error: return errno.errorcode[error.errno]
reader = os.open("${victim}", os.O_RDONLY)
print(tried(lambda: os.chmod("${victim}", 0o777)), tried(lambda: os.fchmod(reader, 0o777)))
print(tried(lambda: os.utime("${victim}", (1, 1))), tried(lambda: os.utime(reader, (1, 1))))
print(tried(lambda: os.setxattr("${victim}", "user.x", b"1")), tried(lambda: os.chown("${victim}", 12345, -1)))
os.symlink("${victim}", "link")
print(tried(lambda: os.chmod("link", 0o777)), tried(lambda: os.chmod("../readable/attributes", 0o777)))
print(tried(lambda: os.chown("${victim}", -1, -1)), tried(lambda: os.chown("link", -1, os.getgid())), tried(lambda: os.fchown(reader, -1, os.getgid())))
os.unlink("link")`;

    test("modes, times, owners and attributes of files elsewhere stay as they are", async () => {
      writeFileSync(victim, "content");
      chmodSync(victim, 0o644);
      const before = statSync(victim);
      const refused = ["EPERM EPERM", "EPERM EPERM", "ENOTSUP EPERM", "EPERM EPERM", "EPERM EPERM EPERM"];
      expect(await ask(attempts)).toEqual(refused);
      const { mode, mtimeMs, ctimeMs } = statSync(victim);
      expect({ mode, mtimeMs, ctimeMs }).toEqual({
        mode: before.mode,
        mtimeMs: before.mtimeMs,
        ctimeMs: before.ctimeMs,
      });
      expect((await ask(attempts, { way: bare }))[0]).toBe("None None");
    });

    test("of its own files they can be set", async () => {
      const code = `
import shutil, subprocess
open("a", "w").write("x"); os.chmod("a", 0o750); os.utime("a", ns=(1, 2_000_000_001))
print(oct(os.stat("a").st_mode & 0o7777), os.stat("a").st_mtime_ns, os.stat("a").st_atime_ns)
shutil.copy2("a", "b"); os.fchmod(os.open("b", os.O_RDONLY), 0o600); os.chown("b", os.getuid(), os.getgid())
print(oct(os.stat("b").st_mode & 0o7777), os.stat("b").st_mtime_ns)
print(subprocess.run("touch -d @5 b && chmod 644 b && stat -c '%Y %a' b && cp -a b c && tar cf t.tar c && rm c && tar xf t.tar && stat -c %Y c && rm a b c t.tar", shell=True, capture_output=True, text=True).stdout.split())`;
      expect(await ask(code)).toEqual(["0o750 2000000001 1", "0o600 2000000001", "['5', '644', '5']"]);
    });

    test("memory, queues and priorities of the user's other programs are out of reach", async () => {
      const code = `
libc = ctypes.CDLL(None, use_errno=True)
info = ctypes.create_string_buffer(256)
for name, call in (("shmctl", lambda: libc.shmctl(0, 13, info)), ("semctl", lambda: libc.semctl(0, 0, 18, info)),
                   ("msgctl", lambda: libc.msgctl(0, 11, info)), ("msgrcv", lambda: libc.msgrcv(0, info, 8, 0, 0o4000))):
    print(name, call(), errno.errorcode[ctypes.get_errno()])
for which in (os.PRIO_USER, os.PRIO_PGRP):
    try: os.setpriority(which, 0, 10)
    except OSError as error: print(errno.errorcode[error.errno])
print(os.nice(1) >= 1)
try: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
except OSError as error: print(errno.errorcode[error.errno])`;
      const refused = ["shmctl", "semctl", "msgctl", "msgrcv"].map((name) => `${name} -1 EPERM`);
      expect(await ask(code)).toEqual([...refused, "EPERM", "EPERM", "True", "EPERM"]);
    });
  });

  describe.each(hasNamespaces ? [] : [1])("with an old version of Landlock", () => {
    test("signals reach its own processes and no others", async () => {
      const code = `
child = os.fork()
if child == 0: signal.pause()
def told(pid, number):
    try: os.kill(pid, number)
    except OSError as error: return errno.errorcode[error.errno]
print(told(${process.pid}, 0), told(os.getppid(), 0), told(1, 0))
print(told(os.getpid(), 0), told(child, 15), os.waitpid(child, 0)[1])
threading.Timer(0.01, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)).start()
signal.signal(signal.SIGUSR1, lambda *_: print("heard"))
signal.pause()`;
      const expected = ["EPERM EPERM EPERM", "None None 15", "heard"];
      for (const landlockAbi of [isolation.landlockAbi, 5, 1]) {
        expect(await ask(code, { how: { ...isolation, landlockAbi } })).toEqual(expected);
      }
    });

    test("files elsewhere are not cut off by their path", async () => {
      const victim = join(readable ?? "", "victim");
      const code = `
try: print(os.truncate("${victim}", 0))
except OSError as error: print(error.strerror)`;
      for (const landlockAbi of [isolation.landlockAbi, 2]) {
        writeFileSync(victim, "content");
        expect(await ask(code, { how: { ...isolation, landlockAbi } })).toEqual([
          expect.stringMatching(/Permission denied|Operation not permitted/),
        ]);
      }
      truncateSync(victim, 0);
    });
  });
});
