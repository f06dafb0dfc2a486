import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { bubblewrapArgs, childPid } from "../../src/isolation/bubblewrap.ts";
import { tryIsolation } from "../../src/isolation/isolation.ts";
import type { Jail } from "../../src/isolation/jail.ts";
import { sharedLibraries } from "../../src/isolation/libraries.ts";
import { describeWith } from "../support/requirements.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "cellwright-jail-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the child's pid is read from what bubblewrap says", () => {
  expect(childPid('{\n    "child-pid": 4242,\n    "cgroup-namespace": 1\n}')).toBe(4242);
  expect(childPid('{ "chi')).toBeUndefined();
});

describeWith("bubblewrap", "a jail", () => {
  /** What a shell in a jail with one writable folder prints. */
  async function inJail(script: string): Promise<string> {
    const system = ["/bin", "/lib", "/lib64", "/usr"].map((path) => ({ from: path, at: path }));
    const jail: Jail = {
      isolation: { tier: "namespaces", launcher: { kind: "bubblewrap", program: "bwrap" }, landlockAbi: 0 },
      readOnly: system,
      readWrite: [{ from: folder, at: "/held" }],
      env: { ONLY: "this" },
      workingDir: "/held",
    };
    const args = bubblewrapArgs(jail, { infoFd: 3, seccompFd: 4 });
    const given = ["--info-fd", "--seccomp"];
    const kept = args.filter((arg, index) => !given.includes(arg) && !given.includes(args[index - 1] ?? ""));
    const command = [...kept, "--", "/bin/sh", "-c", script];
    const { stdout } = await run("bwrap", command, { env: { PATH: process.env.PATH, SECRET: "token" } });
    return stdout.trim();
  }

  test("works here", async () => {
    expect(await tryIsolation("namespaces", "bubblewrap")).toMatchObject({ launcher: { kind: "bubblewrap" } });
  });

  test("shows the mounts of its policy and nothing else of the machine", async () => {
    const secret = join(tmpdir(), `cellwright-secret-${process.pid}`);
    writeFileSync(secret, "flag");
    expect(await inJail(`cat ${secret} /etc/passwd 2>&1 || true; ls /; ls /tmp`)).not.toContain("flag");
    expect(await inJail("ls /etc /root /home 2>/dev/null || echo none")).toContain("none");
    rmSync(secret);
    await inJail("echo written > /held/file");
    expect(readFileSync(join(folder, "file"), "utf8")).toBe("written\n");
    expect(await inJail("touch /usr/x 2>/dev/null || echo read-only")).toBe("read-only");
  });

  test("has its own environment, processes and network, and no capabilities", async () => {
    expect(await inJail("env")).not.toContain("token");
    expect(await inJail("echo $ONLY $$")).toBe("this 2");
    expect(await inJail("ls -d /proc/[0-9]* | wc -l")).toMatch(/^[1-4]$/);
    expect(await inJail("tail -n +3 /proc/net/dev | cut -d: -f1")).toBe("lo");
    expect(await inJail("grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t\\n'")).toBe(
      "CapEff:0000000000000000NoNewPrivs:1",
    );
  });

  test("a program's libraries are found by its own loader", async () => {
    const libraries = await sharedLibraries(process.execPath);
    expect(libraries.some((file) => file.includes("libc.so"))).toBe(true);
    expect(libraries.every((file) => file.startsWith("/"))).toBe(true);
  });
});
