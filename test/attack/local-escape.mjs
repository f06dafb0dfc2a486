// Group A for local kernels and bash, first part: files, processes and secrets of the host and of other sessions.
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, proves, short } from "./case.mjs";
import { breakOut } from "./local-break-out.mjs";
import { attackerIn, forPython, sessionIn, tryAll } from "./local-stage.mjs";
import { commandOf, descendants, isAlive } from "./server.mjs";

const q = JSON.stringify;

const a1 = breakOut({
  id: "A1",
  what: "read, link, write files of the host: by path, by /proc, by descriptors",
  prepare(stage) {
    const listed = join(stage.folder, "listed");
    mkdirSync(join(listed, stage.flag), { recursive: true });
    return { listed };
  },
  ways: ({ flagFile, listed, folder }) => ({
    open: `out = read(${q(flagFile)})`,
    cat: `out = sh("cat ${flagFile}")`,
    "shell's own read": `out = sh("echo $(<${flagFile})")`,
    list: `out = os.listdir(${q(listed)})`,
    "/proc/self/root": `out = read("/proc/self/root" + ${q(flagFile)})`,
    "root of every process": `for pid in os.listdir("/proc"):\n    try: out += read(f"/proc/{pid}/root" + ${q(flagFile)})\n    except OSError: pass`,
    "out of every folder that a process has": `import glob\nfor path in glob.glob("/proc/[0-9]*/cwd") + glob.glob("/proc/[0-9]*/fd/*"):\n    try: out += read(path + "/.." * 20 + ${q(flagFile)})\n    except OSError: pass`,
    "out of the workspace by ..": `out = read("../" * 20 + ${q(flagFile.slice(1))})`,
    "a link in the workspace": `os.path.lexists("to-flag") or os.symlink(${q(flagFile)}, "to-flag")\nout = read("to-flag")`,
    "a linked folder": `os.path.lexists("to-folder") or os.symlink(${q(folder)}, "to-folder")\nout = read("to-folder/flag.txt")`,
    "/etc/shadow": 'out = GOT if ":" in read("/etc/shadow") else ""',
    "write beside it": `open(${q(join(folder, "written"))}, "w").close()\nout = GOT`,
    "handle of the root": `handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))\nmount_id = ctypes.c_int()\nsyscall("name_to_handle_at", number(2**64 - 100), b"/", handle, ctypes.byref(mount_id), number(0))\nout = GOT`,
  }),
  hopes: ({ flagFile, folder }) => ({
    "hard link": `os.link(${q(flagFile)}, "linked")\nout = read("linked")`,
    rename: `os.rename(${q(flagFile)}, "moved")\nout = read("moved")`,
    "/proc/1/root": `out = read("/proc/1/root" + ${q(flagFile)})`,
    "descriptors that lead to folders": `for fd in map(int, os.listdir("/proc/self/fd")):\n    try: out += GOT if stat.S_ISDIR(os.fstat(fd).st_mode) else ""\n    except OSError: pass`,
    "a link, for a program that follows it": `os.symlink(${q(folder)}, TMP + "/host")\nout = read(TMP + "/host/flag.txt")`,
    "the disk itself":
      'for name in ("vda", "sda", "nvme0n1", "xvda"):\n    try: out = opens("/dev/" + name, os.O_RDONLY)\n    except OSError: pass',
    "/root, /home, /mnt":
      'found = [folder for folder in ("/home", "/mnt", "/srv", "/media", "/boot", "/lost+found") if os.path.exists(folder)]\nout = GOT if found else ""',
  }),
  openOnLandlock: { "/root, /home, /mnt": "that a file exists, its size, owner and times can be seen" },
});

const a2 = breakOut({
  id: "A2",
  what: "list, signal, trace, read processes of the host",
  prepare(stage) {
    const victim = spawn("sleep", ["600"], { stdio: "ignore" });
    stage.after(() => void victim.kill("SIGKILL"));
    return { victim };
  },
  effect: ({ victim: { pid } }) => !isAlive(pid),
  ways: ({ victim: { pid } }) => ({
    "list /proc": `out = GOT if "${pid}" in os.listdir("/proc") else ""`,
    "command line": `out = GOT if "sleep" in read("/proc/${pid}/cmdline") else ""`,
    ps: `out = GOT if "sleep 600" in sh("cat /proc/[0-9]*/cmdline | tr '\\\\0' ' '") else ""`,
    memory: `out = opens("/proc/${pid}/mem", os.O_RDWR)`,
    process_vm_readv: `here = ctypes.create_string_buffer(8)\nmaps = read("/proc/${pid}/maps")\nlocal = struct.pack("PN", ctypes.addressof(here), 8)\nremote = struct.pack("PN", int(maps.split("-")[0], 16), 8)\nsyscall("process_vm_readv", number(${pid}), local, number(1), remote, number(1), number(0))\nout = GOT`,
    ptrace: `syscall("ptrace", number(16), number(${pid}), None, None)\nos.waitpid(${pid}, 0x40000000)\nsyscall("ptrace", number(17), number(${pid}), None, None)\nout = GOT`,
    pidfd_open: `syscall("pidfd_open", number(${pid}), number(0))\nout = GOT`,
    "kill 0": `os.kill(${pid}, 0)\nout = GOT`,
    kill: `os.kill(${pid}, 9)\nout = GOT`,
  }),
  hopes: ({ serverPid }) => ({
    "the server": `os.kill(${serverPid}, 0)\nout = GOT`,
    // Bubblewrap's own first process is writable: it has no more rights than the writer.
    "a first process with more rights":
      'rights = lambda pid: [line for line in read(f"/proc/{pid}/status").splitlines() if line.startswith(("Cap", "NoNew", "Seccomp"))]\nout = GOT if rights(1) != rights("self") else "same"',
    "the first process's descriptors":
      'for fd in os.listdir("/proc/1/fd"):\n    try:\n        kind = os.readlink("/proc/1/fd/" + fd)\n        out += GOT if kind.startswith("/") and kind != "/dev/null" else kind\n    except OSError: pass',
    "end the first process": 'os.kill(1, 9)\nos.kill(1, 11)\ntime.sleep(0.1)\nout = "sent"',
    "trace the first process": 'syscall("ptrace", number(16), number(1), None, None)\nout = GOT',
    "its own descriptors by pidfd_getfd":
      'syscall("pidfd_getfd", number(syscall("pidfd_open", number(1), number(0))), number(0), number(0))\nout = GOT',
    "more processes than its own":
      'names = {read(f"/proc/{pid}/comm").strip() for pid in os.listdir("/proc") if pid.isdigit()}\nout = GOT if names - {"bwrap", "bash", "sh", "python", "python3", "cat", "tr"} and not all(name.startswith("python") for name in names - {"bwrap", "bash", "sh", "cat", "tr"}) else ""',
    "everybody, group 0": 'os.kill(0, 0)\nout = "own group"',
  }),
  openOnLandlock: { pidfd_open: "that a process exists can be seen; it can be neither signalled nor read" },
});

const a3 = breakOut({
  id: "A3",
  what: "environment and command line of server and zygote; a key in the environment",
  ways: ({ serverPid }) => ({
    "the server's environment": `out = read("/proc/${serverPid}/environ")`,
    "everybody's environment": `for pid in os.listdir("/proc"):\n    try: out += GOT if ${q("CELLWRIGHT_ATTACK")} + "_FLAG" in read(f"/proc/{pid}/environ") else ""\n    except OSError: pass`,
    "the server's command line": `out = GOT if "main.js" in read("/proc/${serverPid}/cmdline") else ""`,
  }),
  hopes: ({ flag }) => ({
    "os.environ": "out = str(dict(os.environ))",
    "own environ": 'out = read("/proc/self/environ")',
    "env of a program": "out = sh(\"env; cat /proc/$$/environ /proc/$PPID/environ | tr '\\\\0' ' '\")",
    "the parent": 'out = read(f"/proc/{os.getppid()}/environ")',
    "own memory": inOwnMemory(flag),
  }),
});

/** Searches the process's memory for a value that the search itself does not contain as a whole. */
function inOwnMemory(secret) {
  const [head, tail] = [secret.slice(0, secret.length / 2), secret.slice(secret.length / 2)];
  return `import re
pattern = re.compile(${q(head)}.encode() + b"(?=" + ${q(tail)}.encode() + b")")
with open("/proc/self/mem", "rb", 0) as memory:
    for line in read("/proc/self/maps", 10_000_000).splitlines():
        area, rights, *_ = line.split()
        first, last = (int(text, 16) for text in area.split("-"))
        if rights[0] != "r" or "[v" in line or last - first > 300_000_000: continue
        try:
            memory.seek(first)
            if pattern.search(memory.read(last - first)): out = GOT
        except (OSError, ValueError): pass`;
}

const a4 = breakOut({
  id: "A4",
  what: "another session's files, key, sockets, journal; sockets of zygote and server",
  prepare(_, { neighbour, dataDir }) {
    const connection = JSON.parse(readFileSync(join(neighbour, "run/sockets/connection.json"), "utf8"));
    const folder = join(dataDir, "state/zygotes");
    const [socket = ""] = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith(".sock"),
    );
    return { key: connection.key, zygote: join(folder, socket) };
  },
  ways: ({ neighbour, sessions, key, zygote }) => ({
    "its file": `out = read(${q(join(neighbour, "workspace/secret.txt"))})`,
    "its journal": `out = GOT if read(${q(join(neighbour, "journal.ndjson"))}) else ""`,
    "its key": `out = GOT if ${q(key.slice(0, 20))} in read(${q(join(neighbour, "run/sockets/connection.json"))}) else ""`,
    "its record": `out = GOT if read(${q(join(neighbour, "run/kernel.json"))}) else ""`,
    "its sockets": `out = GOT if ask(${q(join(neighbour, "run/sockets/s-1"))}, socket.AF_UNIX, text=b"\\xff" + bytes(8) + b"\\x7f\\x03") else ""`,
    "all sessions": `out = GOT if os.listdir(${q(sessions)}) else ""`,
    "the zygote's socket": `out = GOT if "hello" in ask(${q(zygote)}, socket.AF_UNIX) else ""`,
    "a file for it": `open(${q(join(neighbour, "workspace/planted.txt"))}, "w").close()\nos.unlink(${q(join(neighbour, "workspace/planted.txt"))})\nout = GOT`,
  }),
  hopes: ({ key }) => ({
    "own journal of cells": 'out = GOT if read("../journal.ndjson") else ""',
    "own record":
      'out = GOT if os.path.exists("/run/kernel.json") or os.path.exists("/run/cellwright/../kernel.json") else ""',
    "other sessions' sockets": 'out = GOT if set(os.listdir("/run")) - {"cellwright", "packages", "bash"} else ""',
    "its key in own memory": inOwnMemory(key),
  }),
});

/** What a fork inherits from its zygote: it must contain nothing of any session. */
const x10 = {
  id: "X10",
  class: "S5",
  what: "the zygote's memory in its forks: other sessions' ids, keys, variables",
  async probe(stage) {
    const server = await stage.server("auto");
    // A session in which the neighbour was never mentioned.
    const session = await sessionIn(stage, server, "python");
    const { key } = JSON.parse(
      readFileSync(join(server.dataDir, "sessions", server.neighbour, "run/sockets/connection.json"), "utf8"),
    );
    const secrets = { id: server.neighbour, key, variable: server.keep, flag: stage.flag };
    const ways = Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, inOwnMemory(secret)]));
    const { told, isComplete } = await tryAll(session, ways);
    expect(isComplete, "the search ended early");
    for (const [name, text] of Object.entries(told))
      expect(!text.includes("GOT-THROUGH"), `${name} of the neighbour is in this kernel's memory`);
    const zygote = descendants(server.pid).find((pid) => commandOf(pid).some((word) => word.includes("zygote")));
    expect(zygote, "there is no zygote, so nothing was forked");
    expect(!readFileSync(`/proc/${zygote}/environ`, "utf8").includes(stage.flag), "the zygote has the server's keys");
  },
  async control(stage) {
    const server = await stage.server("none");
    const session = await attackerIn(stage, server, "python");
    await session.run(`held = ${q(stage.flag.slice(0, 9))} + ${q(stage.flag.slice(9))}`);
    const { told } = await tryAll(session, { flag: inOwnMemory(stage.flag) });
    proves(told.flag?.includes("GOT-THROUGH"), short(told.flag ?? "nothing"));
    return "what is in its memory is found";
  },
};

export default [...a1, ...a2, ...a3, ...a4, ...forPython(x10)];
