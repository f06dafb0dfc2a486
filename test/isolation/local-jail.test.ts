import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Isolation, Jail } from "../../src/isolation/jail.ts";
import { type LocalJailOptions, localJail } from "../../src/isolation/local-jail.ts";
import { ownProgramPaths } from "../../src/isolation/own-program.ts";

import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";
import { forked, forkedCommand, outcome, spawned } from "./jailed.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-policy-")));
const python = testPython("debian");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function made(...names: string[]): string {
  const path = join(folder, ...names);
  mkdirSync(path, { recursive: true });
  return path;
}

const bubblewrap = { kind: "bubblewrap" as const, program: "/usr/bin/bwrap" };
const namespaces: Isolation = { tier: "namespaces", launcher: bubblewrap, landlockAbi: 0 };

const policy = (options: Partial<LocalJailOptions>): Promise<Jail> =>
  localJail({ isolation: namespaces, environmentPaths: [], workspaceDir: made("workspace"), ...options });

test("a program that is installed runs from all packages around it", () => {
  expect(ownProgramPaths("/home/u/p/node_modules/cellwright")).toContain("/home/u/p/node_modules");
  expect(ownProgramPaths("/home/u/cellwright")).not.toContain("/home/u");
});

describe("the policy of a local kernel", () => {
  test("shows no settings but those that every program needs, and none with secrets", async () => {
    const { readOnly } = await policy({});
    const shown = readOnly.map(({ at }) => at);
    expect(shown).toContain("/usr");
    expect(shown).toContain("/etc/passwd");
    expect(readOnly.find(({ at }) => at === "/etc/passwd")?.from).not.toBe("/etc/passwd");
    for (const never of [
      "/etc",
      "/etc/shadow",
      "/etc/ssl",
      "/etc/ssl/private",
      "/etc/resolv.conf",
      "/root",
      "/home",
      "/run",
    ]) {
      expect(shown).not.toContain(never);
    }
  });

  test("has the workspace as its home, and nothing of the server's environment", async () => {
    const jail = await policy({ env: { PASSED: "on" } });
    expect(jail.env).toMatchObject({ HOME: "/workspace", PASSED: "on" });
    expect(jail.workingDir).toBe("/workspace");
    expect(jail.network).toBe("none");
    const place = made("in-place");
    expect(await policy({ workspaceDir: place, workspaceInPlace: true })).toMatchObject({ workingDir: place });
  });

  test("keeps code that runs outside as it is, also below what may be written", async () => {
    const workspaceDir = made("project");
    const environment = made("project", "envs", "deep", "one");
    const { readOnly, readWrite } = await policy({
      workspaceDir,
      workspaceInPlace: true,
      environmentPaths: [environment],
    });
    expect(readOnly).toContainEqual({ from: environment, at: environment });
    for (const pinned of [dirname(environment), dirname(dirname(environment))]) {
      expect(readWrite).toContainEqual({ from: pinned, at: pinned });
    }
    // The same under another name.
    const link = join(folder, "link");
    symlinkSync(workspaceDir, link);
    const linked = await policy({ workspaceDir: link, workspaceInPlace: true, environmentPaths: [environment] });
    expect(linked.readOnly).toContainEqual({ from: environment, at: join(link, "envs/deep/one") });
    // And this program, in a folder that is being worked on.
    const root = join(import.meta.dirname, "../..");
    const own = await policy({ workspaceDir: root, workspaceInPlace: true });
    expect(own.readOnly).toContainEqual({ from: join(root, "src"), at: join(root, "src") });
    expect(own.readWrite.map(({ at }) => at)).not.toContain(join(root, "src/isolation"));
  });

  test("without namespaces, what lies around protected names is writable, and the folder itself only readable", async () => {
    const workspaceDir = made("around");
    for (const name of ["src", ".git/hooks", ".git/objects"]) made("around", name);
    symlinkSync("/etc", join(workspaceDir, "link"));
    const jail = await policy({
      isolation: { tier: "landlock", launcher: { kind: "python", program: "/usr/bin/python3" }, landlockAbi: 7 },
      tmpDir: made("tmp"),
      workspaceDir,
      workspaceInPlace: true,
      protectedRoots: [{ root: workspaceDir, paths: [".git/hooks", ".vscode"] }],
    });
    const writable = [join(workspaceDir, ".git/objects"), join(workspaceDir, "src"), join(folder, "tmp")];
    expect(jail.readWrite.map(({ at }) => at).sort()).toEqual(writable.sort());
    expect(jail.readOnly).toContainEqual({ from: workspaceDir, at: workspaceDir });
  });

  test("keeps protected names as they are, at every place where they are seen", async () => {
    const workspaceDir = made("obeyed");
    const link = join(folder, "obeyed-link");
    symlinkSync(workspaceDir, link);
    mkdirSync(join(workspaceDir, ".git", "hooks"), { recursive: true });
    const hooks = join(workspaceDir, ".git/hooks");
    const jail = await policy({
      workspaceDir: link,
      workspaceInPlace: true,
      protectedPaths: [hooks],
      protectedRoots: [{ root: workspaceDir, paths: [".git/hooks", ".vscode"] }],
    });
    expect(jail.readOnly).toContainEqual({ from: hooks, at: join(link, ".git/hooks") });
    expect(jail.readWrite).toContainEqual({ from: join(workspaceDir, ".git"), at: join(link, ".git") });
    // The user's folder is the home there, and its settings are protected.
    expect(jail.env.GIT_CONFIG_GLOBAL).toMatch(/^\/tmp\//);
  });

  test("hides what is never to be seen, wherever it would be, but not what is needed below it", async () => {
    const data = made("home", "data");
    const environment = made("home", "data", "envs", "managed");
    const link = join(folder, "home-link");
    symlinkSync(join(folder, "home"), link);
    const options = { hidden: [data], environmentPaths: [environment] };
    const { hidden, readWrite } = await policy({ ...options, allowRead: [link], allowWrite: [join(folder, "home")] });
    expect(hidden).toEqual(expect.arrayContaining([data, join(link, "data")]));
    expect(readWrite.map(({ at }) => at)).not.toContain(data);
    expect((await policy(options)).hidden).toEqual([]);
  });

  test("refuses what cannot be allowed, with the flag", async () => {
    await expect(policy({ allowRead: ["/nonexistent/x"] })).rejects.toThrow(
      "--allow-read=/nonexistent/x does not exist",
    );
    for (const own of ["/", "/proc", "/proc/1", "/tmp", "/dev/shm"]) {
      await expect(policy({ allowWrite: [own] })).rejects.toThrow(
        `--allow-write=${own} is not possible: a jail has its own`,
      );
    }
    const everything = await policy({ allowRead: ["/"] });
    expect(everything.readOnly.map(({ at }) => at)).not.toContain("/proc");
  });

  test("allows a folder of which the jail has a part already, and mounts nothing twice", async () => {
    const allowedAt = async (path: string) => (await policy({ allowRead: [path] })).readOnly.map(({ at }) => at);
    expect(await allowedAt("/etc")).toContain("/etc");
    expect(await allowedAt("/")).toContain("/etc");
    const covered = (await allowedAt("/usr/lib")).filter((at) => at === "/usr" || at.startsWith("/usr/lib"));
    expect(covered).toEqual(["/usr"]);
  });
});

describeWith("bubblewrap", "in a jail", () => {
  const script = join(folder, "ask.py");
  beforeAll(() => made("workspace"));
  const ask = async (jail: Jail, code: string, way = forked, interpreter = python): Promise<string> => {
    writeFileSync(script, code);
    const shown = { ...jail, readOnly: [...jail.readOnly, { from: script, at: script }] };
    const ran = await way.run(script, [], { python: interpreter, jail: shown, folder });
    expect(ran.stderr).toBe("");
    return ran.stdout.trim();
  };

  test.each([forked, spawned])("allowed paths are there, read-only or not ($name)", async (way) => {
    const [readable, writable] = [made("readable"), made("writable")];
    writeFileSync(join(readable, "file"), "content");
    const jail = await policy({ allowRead: [readable], allowWrite: [writable] });
    const code = `
print(open("${readable}/file").read())
open("${writable}/${way.name.length}", "w")
try: open("${readable}/new", "w")
except OSError as error: print(error.strerror)`;
    expect(await ask(jail, code, way)).toBe("content\nRead-only file system");
    expect(existsSync(join(writable, String(way.name.length)))).toBe(true);
  });

  test.each([forked, spawned])("an environment below a hidden folder works ($name)", async (way) => {
    const data = made("hiding", "data");
    const environment = made("hiding", "data", "envs", "managed");
    writeFileSync(join(environment, "file"), "environment");
    writeFileSync(join(data, "journal"), "secret");
    const jail = await policy({
      hidden: [data],
      environmentPaths: [environment],
      allowWrite: [join(folder, "hiding")],
    });
    const code = `
import os
print(open("${environment}/file").read(), os.listdir("${data}"), os.listdir("${data}/envs"))
for path in ("${data}/new", "${environment}/new"):
    try: open(path, "w")
    except OSError as error: print(error.strerror)`;
    expect(await ask(jail, code, way)).toBe(
      "environment ['envs'] ['managed']\nRead-only file system\nRead-only file system",
    );
  });

  test("a file system mounted below a read-only folder is read-only, too", async () => {
    const outer = made("outer");
    const mounted = made("outer", "mounted");
    const jail = await policy({ allowRead: [outer] });
    writeFileSync(script, `open("${mounted}/new", "w")`);
    const shown = { ...jail, readOnly: [...jail.readOnly, { from: script, at: script }] };
    const inMount = (options: { unjailed?: boolean; oldSystem?: boolean }) => {
      const command = forkedCommand(script, [], { python, jail: shown, folder, ...options });
      return outcome(["unshare", "-Urm", "sh", "-c", `mount -t tmpfs x ${mounted} && exec "$@"`, "sh", ...command]);
    };
    expect(await inMount({ unjailed: true })).toMatchObject({ code: 0 });
    expect((await inMount({})).stderr).toContain("Read-only file system");
    expect((await inMount({ oldSystem: true })).stderr).toContain("Read-only file system");
  });

  const managed = testPython("managed");
  test.runIf(existsSync(managed)).each([forked, spawned])("a managed environment works ($name)", async (way) => {
    const prefixes = await outcome([managed, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)"]);
    const environmentPaths = prefixes.stdout.trim().split("\n");
    const jail = await policy({ environmentPaths, python: managed });
    const code = `
import numpy, os, sys
try: open(os.path.join(sys.prefix, "planted"), "w")
except OSError as error: print(int(numpy.ones(3).sum()), error.strerror)`;
    expect(await ask(jail, code, way, managed)).toBe("3 Read-only file system");
  });

  test.each([forked, spawned])("the machine's network is there when it is asked for ($name)", async (way) => {
    const jail = await policy({ network: "host" });
    const own = await outcome(["/bin/sh", "-c", "readlink /proc/self/ns/net"]);
    expect(await ask(jail, `import os; print(os.readlink("/proc/self/ns/net"))`, way)).toBe(own.stdout.trim());
  });
});
