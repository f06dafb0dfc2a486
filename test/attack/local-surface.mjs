// Group A for local kernels and bash, second part: the system's attack surface. Calls, devices, /proc, /sys, rights.
import { chmodSync, copyFileSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, proves, short } from "./case.mjs";
import { breakOut } from "./local-break-out.mjs";
import { environment, forBoth, inPython, sessionIn } from "./local-stage.mjs";
import { hasNamespaces } from "./tier.mjs";

const q = JSON.stringify;
/** Actions that could change the calling process are tried in a child process. */
const inChild = (code) => `out = in_child(lambda: (${code}, GOT)[1])`;

const a6 = breakOut({
  id: "A6",
  what: "new namespaces, mounts, roots; by call, by clone, by programs",
  ways: () => ({
    "unshare user": inChild('syscall("unshare", number(0x10000000))'),
    "unshare mounts": inChild('syscall("unshare", number(0x00020000))'),
    "unshare network": inChild('syscall("unshare", number(0x40000000))'),
    "program unshare": 'out = GOT if "0" in sh("unshare --user --map-root-user id -u") else ""',
    chroot: inChild('os.chroot("/usr")'),
    mount: inChild(
      '(syscall("unshare", number(0x00020000)), syscall("mount", b"none", b"/proc", b"tmpfs", number(0), None))',
    ),
    fsopen: inChild('syscall("fsopen", b"tmpfs", number(0))'),
    open_tree: inChild('syscall("open_tree", number(2**64 - 100), b"/", number(1))'),
    setns: inChild('syscall("setns", number(os.open("/proc/self/ns/uts", os.O_RDONLY)), number(0))'),
  }),
  hopes: () => ({
    "clone a user namespace": inChild(
      'syscall("clone", number(0x10000000 | 17), None, None, None, None) or os._exit(9)',
    ),
    clone3: inChild(
      'syscall("clone3", struct.pack("=11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), number(88)) or os._exit(9)',
    ),
    pivot_root: inChild('syscall("pivot_root", b"/tmp", b"/tmp")'),
    "umount /proc": inChild('syscall("umount2", b"/proc", number(2))'),
    "remount the root": inChild('syscall("mount", None, b"/", None, number(32 | 4096), None)'),
    "raise the number of namespaces": 'write("/proc/sys/user/max_user_namespaces", "100")\nout = GOT',
    bwrap: 'out = GOT if "in" in sh("bwrap --ro-bind / / echo in") else ""',
    // Without namespaces it is the server's user, possibly root, but without any capabilities.
    "another user": inChild("os.setuid(1 if os.getuid() == 0 else 0)"),
    // 32-bit calls have other numbers, which could bypass a filter.
    "calls of another processor": `code = bytes.fromhex("b836010000bb00000010cd80c3")
def jump():
    import mmap
    area = mmap.mmap(-1, 4096, prot=7)
    area.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    return "DENIED" if ctypes.CFUNCTYPE(ctypes.c_int)(address)() else GOT
out = in_child(jump) if platform.machine() == "x86_64" else ""`,
  }),
});

/** Everything below these folders that opens for writing; files of processes are covered elsewhere. */
const writable = (folders) => `found = []
for top in ${q(folders)}:
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if not (folder == "/proc" and (name.isdigit() or name in ("self", "thread-self")))]
        for name in files:
            path = os.path.join(folder, name)
            try:
                if os.stat(path).st_rdev == os.stat("/dev/null").st_rdev: continue
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                found.append(path)
            except OSError: pass
        if len(found) > 3: break
out = GOT + str(found) if found else ""`;

const a7 = breakOut({
  id: "A7",
  what: "write below /proc and /sys: core_pattern, cgroups, anything that opens",
  ways: () => ({
    "/proc/sys/net": 'out = opens("/proc/sys/net/ipv4/ip_forward")',
    "all below /proc": writable(["/proc/sys/net"]),
  }),
  hopes: () => ({
    "all that opens": writable(["/proc", "/sys"]),
    ...Object.fromEntries(
      [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/cgroup.procs",
        "/sys/fs/cgroup/cgroup.procs",
      ].map((path) => [path, `out = opens(${q(path)})`]),
    ),
    "a group of its own": 'os.makedirs("/sys/fs/cgroup/memory/attack")\nout = GOT',
    "safe from the memory's end": 'write("/proc/self/oom_score_adj", "-1000")\nout = GOT',
    "more processes": "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (100_000, 100_000))\nout = GOT",
    "larger files": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\nout = GOT",
    "more memory": "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (-1, -1))\nout = GOT",
    "a core file": "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\nout = GOT",
    "the kernel's addresses":
      'out = GOT if any(int(line.split()[0], 16) for line in read("/proc/kallsyms").splitlines()[:9]) else ""',
    "the kernel's log": 'syscall("syslog", number(3), ctypes.create_string_buffer(99), number(99))\nout = GOT',
  }),
});

const a8 = breakOut({
  id: "A8",
  what: "bpf, perf, userfaultfd, keys, io_uring, raw sockets and other families",
  ways: () => ({
    keyctl: 'syscall("keyctl", number(0), number(2**64 - 3), number(1))\nout = GOT',
    add_key: 'syscall("add_key", b"user", b"cellwright-attack", b"x", number(1), number(2**64 - 2))\nout = GOT',
    "packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()\nout = GOT",
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()\nout = GOT",
    userfaultfd: 'os.close(syscall("userfaultfd", number(1)))\nout = GOT',
    "netlink of the firewall": "socket.socket(16, socket.SOCK_RAW, 12).close()\nout = GOT",
  }),
  hopes: () => ({
    bpf: 'syscall("bpf", number(0), struct.pack("=5I", 2, 4, 4, 1, 0) + bytes(100), number(120))\nout = GOT',
    perf_event_open:
      'syscall("perf_event_open", struct.pack("=IIQ", 1, 112, 0) + bytes(96), number(0), number(2**64 - 1), number(2**64 - 1), number(0))\nout = GOT',
    io_uring: 'syscall("io_uring_setup", number(4), ctypes.create_string_buffer(120))\nout = GOT',
    ...Object.fromEntries(
      [21, 38, 40, 17, 44, 30, 41].map((family) => [
        `socket family ${family}`,
        `for kind in (1, 2, 3, 5):\n    try:\n        socket.socket(${family}, kind).close()\n        out = GOT\n    except OSError: pass`,
      ]),
    ),
    ...Object.fromEntries(
      ["kexec_load", "init_module", "swapon", "fanotify_init", "acct", "kcmp"].map((name) => [
        name,
        `syscall(${q(name)}, number(0), number(0), number(0), number(0))\nout = GOT`,
      ]),
    ),
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())\nout = GOT",
    "the host's name": 'socket.sethostname("attacked")\nout = GOT',
  }),
});

const a9 = breakOut({
  id: "A9",
  what: "devices: open, make; type into a terminal",
  ways: () => ({
    "mknod of the first disk": inChild(
      '(os.mknod("/tmp/attack-device", 0o600 | stat.S_IFBLK, os.makedev(254, 0)), os.unlink("/tmp/attack-device"))',
    ),
    "mknod of memory": inChild(
      '(os.mknod("/tmp/attack-device", 0o600 | stat.S_IFCHR, os.makedev(1, 1)), os.unlink("/tmp/attack-device"))',
    ),
    "more in /dev": `usual = {"null", "zero", "full", "random", "urandom", "tty", "shm", "pts", "ptmx", "fd", "core", "stdin", "stdout", "stderr", "console"}\nout = GOT if set(os.listdir("/dev")) - usual else ""`,
  }),
  hopes: () => ({
    ...Object.fromEntries(
      ["kvm", "vda", "sda", "mem", "kmsg", "fuse", "net/tun", "vhost-net", "console", "tty0", "loop-control"].map(
        (name) => [name, `out = opens("/dev/${name}", os.O_RDWR)`],
      ),
    ),
    "a file in /dev": 'open("/dev/planted", "w").close()\nout = GOT',
    TIOCSTI:
      "master, slave = os.openpty()\nin_own_session = lambda: (os.setsid(), fcntl.ioctl(slave, 0x540E, 0), fcntl.ioctl(slave, 0x5412, b'x'), GOT)[-1]\nout = in_child(in_own_session)",
    TIOCLINUX: "master, slave = os.openpty()\nfcntl.ioctl(slave, 0x541C, b'\\x02')\nout = GOT",
  }),
});

const ownRights =
  'print({line.split(":")[0]: line.split(":")[1].strip() for line in read("/proc/self/status").splitlines() if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "Groups"))})';

/** Without namespaces only the shell itself can read its folder in /proc, not the programs that it starts. */
const SHELL_RIGHTS = `mapfile -t lines < /proc/self/status
for line in "\${lines[@]}"; do [[ $line =~ ^(Cap|NoNewPrivs|Seccomp:) ]] && echo "'\${line%%:*}': '\${line##*[[:space:]]}'"; done`;

const a11 = forBoth((language) => ({
  id: "A11",
  class: "S5",
  what: "rights of the process; set-uid programs inside, and left for users outside",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const { text } = await session.run(
      hasNamespaces || language === "python" ? inPython(language, ownRights) : SHELL_RIGHTS,
    );
    // Changing the bounding set needs a capability; with no_new_privs it has no effect.
    const bound = hasNamespaces || process.getuid?.() === 0 ? ["CapBnd"] : [];
    for (const name of ["CapEff", "CapPrm", "CapInh", "CapAmb", ...bound])
      expect(text.includes(`'${name}': '0000000000000000'`), `${name} is not empty: ${short(text)}`);
    expect(text.includes("'NoNewPrivs': '1'") && text.includes("'Seccomp': '2'"), short(text));
    const made = await session.run(
      inPython(
        language,
        'import shutil\nshutil.copy("/usr/bin/id", "own-id")\nos.chmod("own-id", 0o755)\ntry: os.chmod("own-id", 0o6755)\nexcept OSError: pass\nprint("as", os.getuid())\nprint(sh("./own-id -u; /usr/bin/su -c id; sudo -n id; mount"))',
      ),
    );
    const [, uid] = /^as (\d+)$/m.exec(made.text) ?? [];
    const isOther = [...made.text.matchAll(/uid=(\d+)\(|^(\d+)$/gm)].some(([, one, other]) => (one ?? other) !== uid);
    expect(
      uid !== undefined && (uid !== "0" || !hasNamespaces) && !isOther,
      `a set-uid program has rights: ${short(made.text)}`,
    );
    const { mode } = statSync(join(session.workspace, "own-id"));
    const isClosed = [session.workspace, dirname(session.workspace), join(server.dataDir, "sessions")].some(
      (folder) => (statSync(folder).mode & 0o011) === 0,
    );
    expect((mode & 0o6000) === 0 || isClosed, "a set-uid file can be reached by other users of the machine");
    return `no capabilities, no new privileges, seccomp`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("none"), language);
    const { text } = await session.run(inPython(language, ownRights));
    proves(text.includes("'NoNewPrivs': '0'") && text.includes("'Seccomp': '0'"), short(text));
    return "without walls: new privileges, no filter";
  },
}));

/** Files that also run outside must not be changed from inside. */
const x11 = breakOut({
  id: "X11",
  what: "write into what others start from: environment, prelude, system, packages, caches",
  prepare(stage) {
    const scratch = join(stage.folder, "scratch-env");
    mkdirSync(scratch, { recursive: true });
    copyFileSync("/bin/true", join(scratch, "program"));
    chmodSync(join(scratch, "program"), 0o755);
    stage.after(() => rmSync(scratch, { recursive: true, force: true }));
    return { scratch };
  },
  ways: ({ scratch }) => ({
    "a folder of programs": `open(${q(join(scratch, "planted"))}, "w").close()\nout = GOT`,
    "site-packages": `folder = next(path for path in sys.path if "site-packages" in path)\nname = os.path.join(folder, "cellwright-attack.txt")\nopen(name, "w").close()\nos.unlink(name)\nout = GOT`,
    "byte code":
      'name = os.path.join(os.path.dirname(json.__file__), "__pycache__", "cellwright-attack.txt")\nopen(name, "w").close()\nos.unlink(name)\nout = GOT',
  }),
  hopes: () => ({
    ...Object.fromEntries(
      [
        environment,
        join(environment, "bin"),
        "/usr/bin",
        "/usr/lib",
        "/etc",
        "/run",
        "/",
        "/opt",
        "/run/packages",
        "/run/bash",
      ].map((folder) => [folder, `open(${q(join(folder, "planted"))}, "w").close()\nout = GOT`]),
    ),
    "the interpreter": "out = opens(os.path.realpath(sys.executable), os.O_WRONLY | os.O_APPEND)",
    "the interpreter, by /proc": 'out = opens("/proc/self/exe", os.O_WRONLY | os.O_APPEND)',
    "the first process's program": 'out = opens("/proc/1/exe", os.O_WRONLY | os.O_APPEND)',
    "our own files": `import glob\nfiles = [module.__file__ for name, module in list(sys.modules.items()) if "cellwright" in name and getattr(module, "__file__", None)]\nfor file in files:\n    try: out += opens(file)\n    except OSError: pass`,
    "rename a folder above": `os.rename(${q(environment)}, ${q(`${environment}-moved`)})\nout = GOT`,
    "times of files": `os.utime(os.path.realpath(sys.executable))\nout = GOT`,
    "rights of files": `path = os.path.realpath(sys.executable)\nos.chmod(path, os.stat(path).st_mode & 0o7777)\nout = GOT`,
    "rights of open files": `path = os.path.realpath(sys.executable)\nwith open(path) as file: os.fchmod(file.fileno(), os.stat(path).st_mode & 0o7777)\nout = GOT`,
    "names beside /workspace": 'os.mkdir("/workspace0")\nout = GOT',
  }),
  openOnLandlock: {
    "times of files": "times of files that belong to the server's user can be changed",
  },
});

export default [...a6, ...a7, ...a8, ...a9, ...a11, ...x11];
