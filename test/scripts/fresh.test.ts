import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const scripts = join(import.meta.dirname, "../../scripts");
const isRootOnLinux = process.platform === "linux" && process.getuid?.() === 0;

function fresh(args: string[], nodeOptions: string[] = []) {
  return spawnSync(process.execPath, [...nodeOptions, join(scripts, "fresh.mjs"), ...args], { encoding: "utf8" });
}

describe("npm run fresh", () => {
  test.each([[["--user", "nobody"]], [["stop"]], [["--users"]]])("%j is answered with what was expected", (args) => {
    const { status, stderr } = fresh(args);
    expect(status).toBe(2);
    expect(stderr).toContain("Expected: [container:]start, test or contract, or image, [--user root|someone]");
  });

  test("says why there is no such machine, and fails unless it is optional", () => {
    const asOrdinaryUser = ["--import", "data:text/javascript,process.getuid = () => 1000"];
    const { status, stderr } = fresh([], asOrdinaryUser);
    expect(status).toBe(1);
    expect(stderr).toBe("fresh: cannot create a fresh machine here: it needs root on Linux.\n");
    expect(fresh(["--optional"], asOrdinaryUser).status).toBe(0);
  });
});

describe.skipIf(!isRootOnLinux)(`refuse-namespaces.py${isRootOnLinux ? "" : " (needs root on Linux)"}`, () => {
  const python = "/usr/bin/python3";
  /** Each call that could create a namespace with its errno, and calls that must keep working. */
  const calls = `
import ctypes, os, platform, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
NEWUTS = 0x04000000
clone, clone3 = {"x86_64": 56, "aarch64": 220}[platform.machine()], 435
def errno(call):
    ctypes.set_errno(0)
    result = call()
    if result == 0 and os.getpid() != me: os._exit(0)
    if result > 0: os.waitpid(result, 0)
    return ctypes.get_errno()
me = os.getpid()
thread = threading.Thread(target=len, args=((),))
thread.start(); thread.join()
subprocess.run(["true"], check=True)
print(errno(lambda: libc.unshare(NEWUTS)), errno(lambda: libc.setns(-1, 0)),
      errno(lambda: libc.syscall(clone, NEWUTS | 17, 0, 0, 0, 0)), errno(lambda: libc.syscall(clone3, 0, 0)),
      errno(lambda: libc.syscall(clone, 17, 0, 0, 0, 0)))`;

  const run = (...before: string[]) => {
    const { stdout, stderr } = spawnSync(python, [...before, "-c", calls], { encoding: "utf8" });
    return stdout.trim() || stderr;
  };

  test("refuses every way to make a namespace, and no way to make a thread or process", ({ skip }) => {
    const [EPERM, EBADF, EINVAL, ENOSYS] = [1, 9, 22, 38];
    if (run() !== `0 ${EBADF} 0 ${EINVAL} 0`) return skip("namespaces are refused here already");
    const within = run(join(scripts, "fresh/refuse-namespaces.py"), python);
    expect(within).toBe(`${EPERM} ${EPERM} ${EPERM} ${ENOSYS} 0`);
  });
});
