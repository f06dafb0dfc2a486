import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { jailHostDir } from "../../src/isolation/fork-jail.ts";
import { HOST_NAME, SIGNALS_ABI, TRUNCATE_ABI, UID } from "../../src/isolation/policy.ts";
import * as tables from "../../src/isolation/seccomp/calls.ts";
import { NEW_NAMESPACE } from "../../src/isolation/seccomp/seccomp.ts";
import { describeWith } from "../support/requirements.ts";

/** Constants that both languages need, as the Python files define them. */
const SCRIPT = `
import json, sys, types
package = types.ModuleType("_cellwright_jail")
package.__path__ = [sys.argv[1]]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import landlock, linux
from _cellwright_jail.gate import connections, files, quota, signals
rules = {"ownFolders": [], "ownNetwork": True, "bridgePort": 1, "writable": []}
gate = {**connections.calls(rules, None), **files.calls(rules), **signals.calls()}
gate.update(quota.calls({"folders": [], "bytes": 1, "blockBytes": 1}))
print(json.dumps({
    "byProcessor": linux._numbers,
    "pidfd_getfd": linux._PIDFD_GETFD,
    "mount_setattr": linux._MOUNT_SETATTR,
    "namespaces": sum(getattr(linux, name) for name in dir(linux) if name.startswith("CLONE_NEW")),
    "truncateAbi": next(since for since, right in landlock._NEWER.items() if right == landlock._TRUNCATE),
    "scopeAbi": landlock._SCOPE_VERSION,
    "gate": list(gate),
}))
`;

describeWith("isolation", "what is said in TypeScript and in Python", () => {
  const python = JSON.parse(
    execFileSync("python3", ["-I", "-S", "-B", "-c", SCRIPT, jailHostDir], { encoding: "utf8" }),
  );
  const { refusedCalls, judgedNameCalls } = tables;

  test("system calls have the same numbers", () => {
    const [pivotX64, , renameX64] = python.byProcessor.x86_64;
    const [pivotArm, , renameArm] = python.byProcessor.aarch64;
    expect([pivotX64, pivotArm]).toEqual(refusedCalls.pivot_root);
    expect([renameX64, renameArm]).toEqual(judgedNameCalls.renameat2);
    for (const name of ["pidfd_getfd", "mount_setattr"]) {
      expect(refusedCalls[name]).toEqual([python[name], python[name]]);
    }
  });

  test("every namespace that a jail has is one that code cannot make", () => {
    expect(python.namespaces & ~NEW_NAMESPACE).toBe(0);
  });

  test("Landlock guards the same from the same version on", () => {
    expect([python.truncateAbi, python.scopeAbi]).toEqual([TRUNCATE_ABI, SIGNALS_ABI]);
  });

  test("the gate answers every call that its filter asks about, and no other", () => {
    const asked = [
      ...[
        tables.judgedFileCalls,
        tables.judgedNameCalls,
        tables.judgedOpenCalls,
        tables.writeCalls,
        tables.signalCalls,
      ],
      { connect: 0, listen: 0, socket: 0 },
    ].flatMap((table) => Object.keys(table));
    expect(python.gate.sort()).toEqual(asked.sort());
  });
});

test("a jail's own user and host name are those of its files in /etc", () => {
  const file = (name: string) => readFileSync(join(jailHostDir, "etc", name), "utf8");
  expect(file("passwd")).toContain(`cellwright:x:${UID}:${UID}:`);
  expect(file("group")).toContain(`cellwright:x:${UID}:`);
  expect(file("hosts")).toMatch(new RegExp(`^127\\.0\\.0\\.1\\s.*\\b${HOST_NAME}$`, "m"));
});
