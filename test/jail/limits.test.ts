import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CgroupMachine } from "../../src/jail/cgroups.ts";
import { explainExit, fromWaitStatus } from "../../src/jail/exit.ts";
import type { Jail, Limits } from "../../src/jail/jail.ts";
import { type LimitSetter, openLimits, type SessionLimits } from "../../src/jail/limits.ts";
import { localJail } from "../../src/jail/local-jail.ts";
import { createLog } from "../../src/log.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";
import { bare, forked, forkedCommand, outcome, spawned, type Way } from "./jailed.ts";

const log = createLog("silent");
const python = testPython("debian");
const isRoot = process.getuid?.() === 0;
const limits: Limits = { memoryMb: 128, cpus: 0.5, pids: 40, diskMb: 8 };
const folder = mkdtempSync(join(tmpdir(), "cellwright-limits-"));
chmodSync(folder, 0o777);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Goes a little beyond each limit, and says how far it came. Harmless where nothing holds it. */
const bombs = `
import errno, os, resource, signal, sys, time
def attempt(name, bomb):
    try: print(name, bomb(), flush=True)
    except MemoryError: print(name, "MemoryError", flush=True)
    except OSError as error: print(name, errno.errorcode[error.errno], flush=True)
def memory():
    return len(bytearray(400 << 20)) >> 20
def processes():
    children = []
    try:
        for _ in range(60):
            pid = os.fork()
            if pid == 0: signal.pause()
            children.append(pid)
    finally:
        for pid in children: os.kill(pid, 9)
        for pid in children: os.waitpid(pid, 0)
    return len(children)
def file():
    with open("/tmp/large", "wb") as large:
        for _ in range(12): large.write(bytes(1 << 20))
    os.remove("/tmp/large")
    return "12 MB"
def files():
    opened = []
    try:
        for _ in range(5000): opened.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for descriptor in opened: os.close(descriptor)
    return len(opened)
for bomb in sys.argv[1:]: attempt(bomb, globals()[bomb])
print("core", resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True)
`;

/** Its children take more together than one process may have. */
const familyBomb = `
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(b"x" * (120 << 20))
        time.sleep(20)
        os._exit(0)
held = bytearray(b"x" * (120 << 20))
time.sleep(20)
print("survived")
`;

describeWith("bubblewrap", "a session's limits", () => {
  const bombFile = join(folder, "bombs.py");
  const familyFile = join(folder, "family.py");
  let setter: LimitSetter;
  let jail: Jail;

  beforeAll(async () => {
    writeFileSync(bombFile, bombs);
    writeFileSync(familyFile, familyBomb);
    setter = await openLimits(log);
    jail = await localJail({ environmentPaths: [], supportPaths: [folder], workspaceDir: folder, tmpMb: 64 });
  });

  const withLimits = async <T>(use: (session: SessionLimits) => Promise<T>): Promise<T> => {
    const session = await setter.for(`test-${randomBytes(4).toString("hex")}`, limits);
    try {
      return await use(session);
    } finally {
      await session.dispose();
      for (const file of session.forProcess.procsFiles) expect(existsSync(dirname(file))).toBe(false);
    }
  };

  const explode = async (way: Way, session?: SessionLimits): Promise<string[]> => {
    const options = { python, jail, folder, ...(session && { limits: session.forProcess }) };
    const ran = await way.run(bombFile, ["memory", "processes", "file", "files"], options);
    expect(ran.stderr).toBe("");
    return ran.stdout.trim().split("\n");
  };

  test("hold in a jail after a fork and in bubblewrap, and not without", async () => {
    expect(await explode(bare)).toEqual([
      "memory 400",
      "processes 60",
      "file 12 MB",
      expect.any(String),
      expect.any(String),
    ]);
    expect((await explode(forked)).slice(0, 3)).toEqual(["memory 400", "processes 60", "file 12 MB"]);
    const contained = ["memory MemoryError", "processes EAGAIN", "file EFBIG", "files EMFILE", "core 0"];
    for (const way of [forked, spawned]) {
      expect(await withLimits((session) => explode(way, session))).toEqual(contained);
    }
  });

  test.runIf(isRoot)("hold for an ordinary user who has no cgroups", async () => {
    const forProcess = { procsFiles: [], addressSpaceMb: 128, fileSizeMb: 8, processes: 40, openFiles: 512 };
    const options = { python, jail, folder, limits: forProcess };
    const command = forkedCommand(bombFile, ["memory", "processes", "file", "files"], options);
    const ran = await outcome(["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", ...command]);
    expect(ran.stdout.trim().split("\n").slice(1)).toEqual([
      "memory MemoryError",
      "processes EAGAIN",
      "file EFBIG",
      "files EMFILE",
      "core 0",
    ]);
  });

  test("the sum of a session's memory ends it, and that is told", async ({ skip }) => {
    await withLimits(async (session) => {
      if (!session.limitsMemory) return skip(session.notes.join(" "));
      const options = { python, jail, folder, limits: session.forProcess };
      // The largest goes first, and which that is is for the system to say: the others go on without their memory.
      const ran = await forked.run(familyFile, [], options);
      const reason = await session.causeOfDeath({ code: ran.code, signal: null });
      if (ran.code === 137) expect(reason).toContain("ran out of memory");
      else expect(reason).toContain("code 0");
      expect(ran.code === 137 || ran.code === 0).toBe(true);
      expect(readFileSync(oomFile(session), "utf8")).toMatch(/^oom_kill [1-9]/m);
    });
  }, 90_000);

  test("all that is left of a session is ended with it", async ({ skip }) => {
    const session = await setter.for("test-left", limits);
    if (session.forProcess.procsFiles.length === 0) return skip("no cgroups");
    const again = await setter.for("test-left", limits);
    const join = session.forProcess.procsFiles.map((file) => `echo 0 > ${file};`).join(" ");
    const { stdout } = await outcome(["/bin/sh", "-c", `${join} setsid sleep 100 >/dev/null 2>&1 & echo $!`]);
    await expect.poll(() => session.processes()).not.toEqual([]);
    await session.dispose();
    // Its other kernel is still there.
    expect(await again.processes()).not.toEqual([]);
    await again.dispose();
    expect(existsSync(`/proc/${stdout.trim()}`)).toBe(false);
  });
});

describe("cgroups", () => {
  /** A file system of cgroups that looks like this one, in which groups get their files. */
  function machine(files: Record<string, string>, mountInfo: string, ownGroups: string): CgroupMachine {
    const root = mkdtempSync(join(folder, "cgroup-"));
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(root, name)), { recursive: true });
      writeFileSync(join(root, name), content);
    }
    return {
      mountInfo: mountInfo.replaceAll("ROOT", root),
      ownGroups,
      pid: 4242,
      makeGroup: async (made) => {
        mkdirSync(made, { recursive: true });
        const names = [
          "memory.max",
          "memory.swap.max",
          "pids.max",
          "cpu.max",
          "cgroup.procs",
          "cgroup.subtree_control",
        ];
        const first = ["memory.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us"];
        for (const name of [...names, ...first]) if (!existsSync(join(made, name))) writeFileSync(join(made, name), "");
      },
    };
  }
  const second = (root: string) => `30 20 0:26 ${root} ROOT rw,nosuid - cgroup2 cgroup2 rw\n`;

  test("of version 2: a group is made beside ours, in the nearest folder that may be used", async () => {
    const user = "user.slice/app.slice";
    const own = { [`${user}/own.scope/cgroup.procs`]: "4242\n17\n", [`${user}/own.scope/cgroup.subtree_control`]: "" };
    const files = { ...own, [`${user}/cgroup.subtree_control`]: "memory pids cpu\n", [`${user}/cgroup.procs`]: "" };
    const setter = await openLimits(log, machine(files, second("/"), `0::/${user}/own.scope\n`));
    const session = await setter.for("s_1", { memoryMb: 100, cpus: 1.5, pids: 30, diskMb: 10 });
    const [procs = ""] = session.forProcess.procsFiles;
    expect(procs).toMatch(/user\.slice\/app\.slice\/.*cellwright\/s_1\/cgroup\.procs$|own\.scope\/cellwright\/s_1/);
    const value = (name: string) => readFileSync(join(dirname(procs), name), "utf8");
    expect(value("memory.max")).toBe(String(356 * 1024 * 1024));
    expect(value("memory.swap.max")).toBe("0");
    expect(value("pids.max")).toBe("38");
    expect(value("cpu.max")).toBe("150000 100000");
    expect(session.limitsMemory).toBe(true);
    expect(session.notes).toEqual([]);
  });

  test("of version 1, of both at once, and in a container that sees only its own", async () => {
    const mounts = [
      "31 20 0:27 /docker/abc ROOT/memory rw - cgroup cgroup rw,memory",
      "32 20 0:28 /docker/abc ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct",
      "33 20 0:29 / ROOT/unified rw - cgroup2 cgroup2 rw",
    ].join("\n");
    const groups = "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc/deep\n0::/x\n";
    const files = {
      "memory/cgroup.procs": "",
      "cpu/deep/cgroup.procs": "",
      "unified/x/cgroup.procs": "1\n2\n",
      "unified/cgroup.subtree_control": "hugetlb",
    };
    const setter = await openLimits(log, machine(files, mounts, groups));
    expect(setter.means[0]).toBe("memory: cgroup v1");
    const session = await setter.for("s_2", { memoryMb: 100, pids: 30, diskMb: 10 });
    expect(session.forProcess.procsFiles.map((file) => file.replace(/^.*cgroup-[^/]+/, ""))).toEqual([
      "/memory/cellwright/s_2/cgroup.procs",
      "/cpu/deep/cellwright/s_2/cgroup.procs",
    ]);
  });

  test("where there are none, rlimits hold and what they do not is said", async () => {
    const setter = await openLimits(log, machine({}, "", ""));
    const session = await setter.for("s_3", limits);
    expect(session.forProcess).toEqual({
      procsFiles: [],
      addressSpaceMb: 128,
      fileSizeMb: 8,
      processes: 40,
      openFiles: 4096,
    });
    expect(session.notes.join(" ")).toContain("each process alone");
    expect(session.notes.join(" ")).toContain("Processors are not limited");
    expect(session.limitsMemory).toBe(false);
    expect(await session.processes()).toEqual([]);
    await session.dispose();
  });
});

test("the end of a kernel is explained", () => {
  expect(explainExit(fromWaitStatus(9))).toBe("The kernel was killed by SIGKILL.");
  expect(explainExit(fromWaitStatus(9), { limitMb: 100 })).toContain("more than the limit of 100 MB");
  expect(explainExit(fromWaitStatus(35072))).toBe("The kernel was killed by SIGKILL.");
  expect(explainExit(fromWaitStatus(768))).toBe("The kernel exited with code 3.");
  expect(explainExit({ code: null, signal: "SIGSEGV" })).toBe("The kernel was killed by SIGSEGV.");
});

function oomFile(session: SessionLimits): string {
  const memory = session.forProcess.procsFiles.map((file) => dirname(file));
  const candidates = memory.flatMap((group) =>
    ["memory.oom_control", "memory.events"].map((name) => join(group, name)),
  );
  return candidates.find((file) => existsSync(file)) ?? "";
}
