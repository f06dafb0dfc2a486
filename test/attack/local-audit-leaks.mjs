// What a kernel learns about others: forks of one zygote share their address layout, and /proc shows paths and process
// ids of the machine. Both stay (docs/security.md says why); neither may give access to anything.
import { join } from "node:path";
import { randomFlag } from "./case.mjs";
import { breakOut } from "./local-break-out.mjs";
import { descendants } from "./server.mjs";

const q = JSON.stringify;

/** Python that sets `out` if `bytes` contains the secret, which no source contains as a whole. */
const found = (secret, bytes) =>
  `out += GOT if ${q(secret.slice(0, 9))}.encode() + ${q(secret.slice(9))}.encode() in ${bytes} else ""`;

const h4 = breakOut({
  id: "H4",
  class: "H1",
  what: "an address in a neighbour, which has the same layout, to read the neighbour's memory",
  async prepare(_, __, server) {
    const secret = randomFlag();
    const code = `import ctypes\nheld = ctypes.create_string_buffer(b"${secret.slice(0, 9)}" + b"${secret.slice(9)}")\nprint("at", ctypes.addressof(held))`;
    const { text } = await server.admin.run(code, { session_id: server.neighbour });
    return { secret, address: Number(/at (\d+)/.exec(text)?.[1]), pids: descendants(server.pid) };
  },
  ways: ({ secret, address, pids }) => {
    const ofEach = (attempt) => `for pid in ${q(pids)}:\n    try:\n        ${attempt}\n    except OSError: pass`;
    return {
      "/proc": ofEach(`with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(${address})
            ${found(secret, "memory.read(64)")}`),
      process_vm_readv: ofEach(`here = ctypes.create_string_buffer(64)
        area = lambda address: struct.pack("PN", address, 64)
        syscall("process_vm_readv", number(pid), area(ctypes.addressof(here)), number(1), area(${address}), number(1), number(0))
        ${found(secret, "here.raw")}`),
    };
  },
  hopes: ({ secret, address }) => ({
    "the same place of its own": `with open("/proc/self/mem", "rb", 0) as memory:\n    memory.seek(${address})\n    ${found(secret, "memory.read(64)")}`,
  }),
});

const h5 = breakOut({
  id: "H5",
  class: "H1",
  what: "paths of /proc/self/mountinfo and process numbers of /proc/stat, to reach a neighbour",
  prepare: (_, { sessions, neighbour }, server) => ({
    // In a jail they would have to be found; here they are given, because a control has no mounts.
    paths: [sessions, join(neighbour, "workspace")],
    pids: descendants(server.pid),
    id: server.neighbour,
  }),
  ways: ({ paths, pids, id }) => ({
    "a path of a mount": `told = {part for line in read("/proc/self/mountinfo").splitlines() for part in line.split() if part.startswith("/")}
for path in told | set(${q(paths)}):
    for folder in (path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        try: out += GOT if ${q(id)} in os.listdir(folder) else ""
        except OSError: pass`,
    "the number of a process": `forks = int(next(line for line in read("/proc/stat").splitlines() if line.startswith("processes")).split()[1])
for pid in set(range(max(2, forks - 300), forks + 1)) | set(${q(pids)}):
    for place in ("cwd", "root" + ${q(paths[1])}):
        try: out += read(f"/proc/{pid}/{place}/secret.txt")
        except OSError: pass`,
  }),
});

export default [...h4, ...h5];
