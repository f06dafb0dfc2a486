import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Jail } from "../../src/isolation/jail.ts";
import { localJail } from "../../src/isolation/local-jail.ts";
import { familyOf } from "../../src/isolation/processes.ts";
import { programPid, spawnJailed } from "../../src/isolation/spawn.ts";
import { startTimeOf } from "../../src/process/process-life.ts";
import { describeWithIsolations } from "../support/isolations.ts";
import { testPython } from "../support/pythons.ts";
import { until } from "../support/until.ts";
import { forkedCommand } from "./jailed.ts";

const python = testPython("debian");

/**
 * Follows commands: `raise N`, `exit N`, `daemon`; prints `interrupted` on SIGINT. It waits for both at once: in a plain
 * read, Python would miss a signal that arrived just before it.
 */
const script = `
import os, select, signal
wake, woken = os.pipe()
os.set_blocking(woken, False)
signal.set_wakeup_fd(woken)
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
print("ready", flush=True)
while True:
    ready, _, _ = select.select([0, wake], [], [])
    if wake in ready: os.read(wake, 100)
    if 0 not in ready: continue
    word, _, number = os.read(0, 100).decode().strip().partition(" ")
    if word == "raise": os.kill(os.getpid(), int(number))
    if word == "exit": os._exit(int(number))
    if word == "daemon":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pause()
            os._exit(0)
        os.wait()
        print("daemon left", flush=True)
    if word == "orphans":
        for _ in range(20):
            if os.fork() == 0:
                os.fork()
                os._exit(0)
        for _ in range(20): os.wait()
        print("orphans left", flush=True)
`;

describeWithIsolations("a jailed program", (isolation) => {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-life-"));
  const scriptFile = join(folder, "script.py");
  const started: ChildProcess[] = [];
  let jail: Jail;

  beforeAll(async () => {
    chmodSync(folder, 0o755);
    writeFileSync(scriptFile, script);
    jail = await localJail({
      isolation,
      environmentPaths: [],
      workspaceDir: folder,
      ...(isolation.tier === "landlock" && { tmpDir: folder }),
    });
  });
  afterAll(() => {
    for (const child of started) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  /** Which process gets SIGINT, which SIGKILL, and the started child. */
  const ways = {
    "after a fork": async () => {
      const request = forkedCommand(join(jail.workingDir, "script.py"), [], { python, jail, folder });
      const [program = "", ...args] = request;
      const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
      const say = follow(child);
      const supervisor = Number(await say());
      return { child, say, interrupt: async () => supervisor, kill: supervisor };
    },
    "by a launcher": async () => {
      const command = [python, "-B", join(jail.workingDir, "script.py")];
      const { child, ids } = spawnJailed(jail, command, { stdio: ["pipe", "pipe", "pipe"], survives: true });
      const say = follow(child);
      const { first = 0, ending = 0 } = (await ids) ?? {};
      return { child, say, interrupt: () => programPid(first), kill: ending };
    },
  };

  function follow(child: ChildProcess): () => Promise<string> {
    started.push(child);
    if (!child.stdout) throw new Error("no stdout");
    child.stderr?.resume();
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return async () => (await lines.next()).value ?? "";
  }

  describe.each(Object.entries(ways))("%s", (_name, start) => {
    const begin = async () => {
      const way = await start();
      expect(await way.say()).toBe("ready");
      const tell = (line: string) => void way.child.stdin?.write(`${line}\n`);
      const exited = new Promise<number | null>((resolve) =>
        way.child.once("exit", (code, signal) => resolve(signal === "SIGKILL" ? 137 : code)),
      );
      return { ...way, interrupt: (await way.interrupt()) ?? Number.NaN, tell, exited };
    };

    test("gets SIGINT and goes on, and its exit code is passed on", async () => {
      const { say, interrupt, tell, exited } = await begin();
      // Many rounds: each signal arrives while its receiver is about to wait for the next one.
      for (let time = 0; time < 500; time += 1) {
        process.kill(interrupt, "SIGINT");
        expect(await say()).toBe("interrupted");
      }
      tell("exit 3");
      expect(await exited).toBe(3);
    });

    test("dies of a signal as 128 and its number", async () => {
      const { tell, exited } = await begin();
      tell("raise 9");
      expect(await exited).toBe(137);
    });

    test("leaves no zombies, and a daemon ends with the jail", async () => {
      const { say, tell, exited, kill } = await begin();
      const before = (await familyOf(kill)).length;
      tell("orphans");
      expect(await say()).toBe("orphans left");
      tell("daemon");
      expect(await say()).toBe("daemon left");
      // Orphans are reaped a moment later.
      await expect.poll(async () => (await familyOf(kill)).length).toBe(before + 1);
      const family = await familyOf(kill);
      expect(family.length).toBeGreaterThan(2);
      tell("exit 0");
      expect(await exited).toBe(0);
      await expect.poll(() => family.filter(isAlive)).toEqual([]);
    });

    test("all that is inside ends when its first process or supervisor is killed", async () => {
      const { say, tell, exited, kill } = await begin();
      tell("daemon");
      expect(await say()).toBe("daemon left");
      const family = await familyOf(kill);
      process.kill(kill, "SIGKILL");
      expect(await exited).toBe(137);
      await expect.poll(() => family.filter(isAlive)).toEqual([]);
    });
  });

  test("what is in its environment is not to be read on a command line", async () => {
    const secret = "a-secret-of-the-environment";
    const withSecret: Jail = { ...jail, env: { ...jail.env, SECRET: secret } };
    const script = 'echo "$SECRET"; read line';
    const { child, ids } = spawnJailed(withSecret, ["/bin/sh", "-c", script], { stdio: ["pipe", "pipe", "pipe"] });
    expect(await follow(child)()).toBe(secret);
    for (const pid of [child.pid, ...(await familyOf((await ids)?.ending ?? 0))]) {
      expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toContain(secret);
    }
    child.stdin?.end();
    await new Promise((resolve) => child.once("exit", resolve));
  });

  // Without namespaces no mount can fail: missing files are not granted.
  const impossible = isolation.tier === "namespaces" ? [{ from: "/nonexistent", at: "/x" }] : [];
  test.each(impossible)("a jail that cannot be built is said, and nothing is run", async (mount) => {
    const impossible: Jail = { ...jail, readOnly: [mount] };
    const [program = "", ...args] = forkedCommand("/workspace/script.py", [], { python, jail: impossible, folder });
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let stderr = "";
    child.stderr?.on("data", (text) => {
      stderr += text;
    });
    const code = await new Promise((resolve) => child.once("close", resolve));
    expect({ code, named: stderr.includes("/nonexistent") }).toEqual({ code: 1, named: true });
  });
});

/** A zombie counts as dead, even if its parent has not reaped it yet. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}

test.runIf(process.platform === "linux")(
  "the program of a jail is not awaited when the jail has ended, even as a zombie",
  async () => {
    const parent = spawn("/bin/sh", ["-c", "sleep 0 & echo $!; exec sleep 1000"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const [printed] = await once(parent.stdout, "data");
    const zombie = Number(printed);
    await until("a zombie", async () => (await startTimeOf(zombie)) === undefined);
    expect(existsSync(`/proc/${zombie}`)).toBe(true);
    expect(await programPid(zombie)).toBeUndefined();
  },
);
