import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { explainExit, fromWaitStatus } from "../../../src/isolation/exit.ts";
import type { Jail, Limits } from "../../../src/isolation/jail.ts";
import type { CgroupMachine } from "../../../src/isolation/limits/cgroups.ts";
import { type LimitSetter, openLimits, type SessionLimits } from "../../../src/isolation/limits/limits.ts";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { createLog } from "../../../src/log.ts";
import { describeWithIsolations } from "../../support/isolations.ts";
import { isAlive } from "../../support/program.ts";
import { testPython } from "../../support/pythons.ts";
import { bare, forked, forkedCommand, outcome, spawned, type Way } from "../jailed.ts";

const log = createLog("silent");
const python = testPython("debian");
const isRoot = process.getuid?.() === 0;
const limits: Limits = { memoryMb: 128, cpus: 0.5, pids: 40, diskMb: 8 };
const folder = mkdtempSync(join(tmpdir(), "cellwright-limits-"));
chmodSync(folder, 0o777);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Goes slightly beyond each limit, and reports how far it came. Harmless where no limit applies. */
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
    with open(os.environ.get("TMPDIR", "/tmp") + "/large-%d" % os.getuid(), "wb") as large:
        for _ in range(12): large.write(bytes(1 << 20))
    os.remove(large.name)
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

/** Its children together take more than one process may have. */
const familyBomb = `
import os, signal
def hold(): return bytearray(b"x") * (100 << 20)
for _ in range(6):
    if os.fork() == 0:
        held = hold()
        signal.pause()
# One of them, or this one, is killed for it; none would leave by itself.
os.wait()
os.kill(os.getpid(), 9)
`;

describeWithIsolations("a session's limits", (isolation) => {
  const bombFile = join(folder, "bombs.py");
  const familyFile = join(folder, "family.py");
  const tmpDir = join(folder, "tmp");
  let setter: LimitSetter;
  let jail: Jail;

  beforeAll(async () => {
    mkdirSync(tmpDir, { recursive: true });
    chmodSync(tmpDir, 0o777);
    writeFileSync(bombFile, bombs);
    writeFileSync(familyFile, familyBomb);
    setter = await openLimits(log);
    jail = await localJail({
      isolation,
      environmentPaths: [],
      supportPaths: [bombFile, familyFile],
      workspaceDir: folder,
      ...(isolation.tier === "landlock" ? { tmpDir } : { tmpMb: 64 }),
    });
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

  test("hold in a jail after a fork and by a launcher, and not without", async () => {
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

  test("the sum of a session's memory ends it, with the reason", async ({ skip }) => {
    await withLimits(async (session) => {
      if (!session.limitsMemory) return skip(session.notes.join(" "));
      const options = { python, jail, folder, limits: session.forProcess };
      const ran = await forked.run(familyFile, [], options);
      expect(ran.code).toBe(137);
      expect(await session.causeOfDeath({ code: ran.code, signal: null })).toBe(
        "The kernel ran out of memory: its processes together used more than the limit of 128 MB.",
      );
      // Reported once: a later death has its own cause.
      expect(await session.causeOfDeath({ code: ran.code, signal: null })).toBe("The kernel was killed by SIGKILL.");
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
    // Its other kernel is still alive.
    expect(await again.processes()).not.toEqual([]);
    await again.dispose();
    // Dead, though perhaps not reaped: in a container, pid 1 may not do that.
    await expect.poll(() => isAlive(Number(stdout))).toBe(false);
  });

  test("a kernel that starts while its session's last one is removed keeps its groups", async ({ skip }) => {
    const first = await setter.for("test-reset", limits);
    if (first.forProcess.procsFiles.length === 0) return skip("no cgroups");
    let last = first;
    for (let round = 0; round < 20; round += 1) {
      const [, next] = await Promise.all([last.dispose(), setter.for("test-reset", limits)]);
      const missing = next.forProcess.procsFiles.filter((file) => !existsSync(file));
      expect({ round, missing }).toEqual({ round, missing: [] });
      last = next;
    }
    await last.dispose();
  });
});

describe("cgroups", () => {
  const group = `cellwright-${process.getuid?.() ?? 0}`;

  /** A fake cgroup file system in which groups get their files. */
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
      write: async (file, value) => {
        const before = readFileSync(file, "utf8");
        if (!file.endsWith("subtree_control")) return writeFileSync(file, value);
        // Like the kernel: not in a group with processes, and only controllers that the parent enables.
        if (readFileSync(join(dirname(file), "cgroup.procs"), "utf8")) throw new Error("EBUSY");
        const above = join(dirname(dirname(file)), "cgroup.subtree_control");
        const name = value.slice(1);
        if (existsSync(above) && !readFileSync(above, "utf8").includes(name)) throw new Error("ENOENT");
        if (!before.includes(name)) writeFileSync(file, `${before.trim()} ${name}\n`);
      },
      canJoin: async (file) => !file.includes("closed"),
    };
  }
  const second = (root: string) => `30 20 0:26 ${root} ROOT rw,nosuid - cgroup2 cgroup2 rw\n`;

  test("of version 2: a group is made beside ours, in the nearest folder that may be used", async () => {
    const user = "user.slice/app.slice";
    const files = {
      "cgroup.subtree_control": "memory pids cpu",
      "cgroup.procs": "",
      "user.slice/cgroup.subtree_control": "memory pids cpu",
      "user.slice/cgroup.procs": "",
      [`${user}/cgroup.subtree_control`]: "memory pids cpu",
      [`${user}/cgroup.procs`]: "",
      [`${user}/own.scope/cgroup.subtree_control`]: "",
      [`${user}/own.scope/cgroup.procs`]: "4242\n17\n",
    };
    const setter = await openLimits(log, machine(files, second("/"), `0::/${user}/own.scope\n`));
    expect(setter.mechanisms).toEqual(["memory: cgroup v2", "pids: cgroup v2", "cpu: cgroup v2"]);
    const session = await setter.for("s_1", { memoryMb: 100, cpus: 1.5, pids: 30, diskMb: 10 });
    const [procs = ""] = session.forProcess.procsFiles;
    expect(procs).toContain(`/${user}/${group}/s_1/cgroup.procs`);
    const value = (name: string) => readFileSync(join(dirname(procs), name), "utf8");
    expect(value("memory.max")).toBe(String(356 * 1024 * 1024));
    expect(value("memory.swap.max")).toBe("0");
    expect(value("pids.max")).toBe("38");
    expect(value("cpu.max")).toBe("150000 100000");
    expect(session.limitsMemory).toBe(true);
    expect(session.notes).toEqual([]);
  });

  test("of version 2: a server that is alone in its group steps aside", async () => {
    const files = { "own/cgroup.subtree_control": "", "own/cgroup.procs": "4242\n" };
    const alone = machine({ ...files, "cgroup.subtree_control": "memory" }, second("/"), "0::/own\n");
    const { write } = alone;
    alone.write = async (file, value) => {
      await write(file, value);
      // A process that is written into a group leaves its previous one.
      if (file.endsWith("cellwright-server/cgroup.procs")) writeFileSync(join(file, "../../cgroup.procs"), "");
    };
    const setter = await openLimits(log, alone);
    expect(setter.mechanisms[0]).toBe("memory: cgroup v2");
    const session = await setter.for("s_4", limits);
    expect(session.forProcess.procsFiles[0]).toContain(`/own/${group}/s_4/`);
    expect(session.notes.join(" ")).toContain("CPU time is not limited");
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
    expect(setter.mechanisms[0]).toBe("memory: cgroup v1");
    const session = await setter.for("s_2", { memoryMb: 100, pids: 30, diskMb: 10 });
    expect(session.forProcess.procsFiles.map((file) => file.replace(/^.*cgroup-[^/]+/, ""))).toEqual([
      `/memory/${group}/s_2/cgroup.procs`,
      `/cpu/deep/${group}/s_2/cgroup.procs`,
    ]);
  });

  test("that cannot be entered are not used", async () => {
    const mounts = "31 20 0:27 / ROOT/closed rw - cgroup cgroup rw,memory";
    const setter = await openLimits(log, machine({ "closed/cgroup.procs": "" }, mounts, "5:memory:/\n"));
    expect(setter.mechanisms[0]).toContain("rlimit");
  });

  test("where there are none, rlimits hold and what they do not is said", async () => {
    const setter = await openLimits(log, machine({}, "", ""));
    const session = await setter.for("s_3", limits);
    expect(session.forProcess).toEqual({
      procsFiles: [],
      dataMb: 128,
      addressSpaceMb: 128,
      fileSizeMb: 8,
      processes: 40,
      openFiles: 4096,
    });
    expect(session.notes.join(" ")).toContain("Memory is limited per process");
    expect(session.notes.join(" ")).toContain("CPU time is not limited");
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
