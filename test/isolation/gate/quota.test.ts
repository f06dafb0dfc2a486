import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { diskUse } from "../../../src/isolation/limits/disk-use.ts";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { describeWithIsolations } from "../../support/isolations.ts";
import { testPython } from "../../support/pythons.ts";
import { forked } from "../jailed.ts";

const python = testPython("debian");
const MB = 1024 * 1024;
const LIMIT = 8 * MB;

/** How each writes a megabyte to the file `f`; all report what finally refused it. */
const ways = {
  write: "os.write(f, MEGABYTE)",
  pwrite: "os.pwrite(f, MEGABYTE, n << 20)",
  writev: "os.writev(f, [MEGABYTE[:500], MEGABYTE[500:]])",
  pwritev: "os.pwritev(f, [MEGABYTE], n << 20)",
  "a copy": "shutil.copyfileobj(open('/tmp/source', 'rb'), os.fdopen(os.dup(f), 'wb'))",
  "a fast copy": "shutil.copyfile('/tmp/source', 'copy-%d' % n)",
  "small files":
    "for i in range(128): os.write(os.open('small-%d-%d' % (n, i), os.O_CREAT | os.O_WRONLY), b'0123456789'); os.closerange(f + 1, f + 9)",
  "another process":
    "subprocess.run(['head', '-c', '1048576', '/dev/zero'], stdout=f, stderr=subprocess.DEVNULL, check=True)",
};

describeWithIsolations("a quota in a jail", (isolation) => {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-quota-"));
  const workspaceDir = join(folder, "own");
  const tmpDir = join(folder, "tmp");
  const script = join(folder, "script.py");
  chmodSync(folder, 0o755);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  beforeEach(() => {
    for (const made of [workspaceDir, tmpDir]) {
      rmSync(made, { recursive: true, force: true });
      mkdirSync(made);
    }
  });

  const run = async (code: string, { limited = true } = {}): Promise<string[]> => {
    writeFileSync(
      script,
      `import errno, os, shutil, subprocess, sys\nMEGABYTE = bytes(1 << 20)\nf = os.open("file", os.O_CREAT | os.O_WRONLY)\n${code}`,
    );
    const jail = await localJail({
      isolation,
      environmentPaths: [],
      python,
      workspaceDir,
      tmpDir,
      supportPaths: [script],
    });
    const quota = { folders: [jail.workingDir], bytes: LIMIT };
    const ran = await forked.run(script, [], { python, jail: limited ? { ...jail, quota } : jail, folder });
    expect(ran.stderr).toBe("");
    return ran.stdout.trim().split("\n");
  };

  const fill = (way: string) => `
open("/tmp/source".replace("/tmp", os.environ["TMPDIR"]), "wb").write(MEGABYTE)
n = 0
try:
    while n < 40:
        ${way.replaceAll("'/tmp/source'", "os.environ['TMPDIR'] + '/source'")}
        n += 1
    print("all")
except OSError as error: print(errno.errorcode[error.errno])
except subprocess.CalledProcessError: print("EDQUOT")
print(n)`;

  for (const [name, way] of Object.entries(ways)) {
    test(`stops ${name} before the byte that is too many, and not without it`, async () => {
      const [refusal, done] = await run(fill(way));
      expect(refusal).toBe("EDQUOT");
      expect(Number(done)).toBeGreaterThan(3);
      expect(await diskUse([workspaceDir], Number.POSITIVE_INFINITY)).toBeLessThanOrEqual(LIMIT + MB);
      rmSync(join(workspaceDir, "file"));
      expect(await run(fill(way), { limited: false })).toEqual(["all", "40"]);
    });
  }

  test("is given back what is removed or written over, and counts a file with two names once", async () => {
    const code = `
for n in range(30):
    os.pwrite(f, MEGABYTE * 3, 0)
    os.link("file", "other")
    open("removed", "wb").write(MEGABYTE * 4)
    os.unlink("removed")
    os.unlink("other")
print("done")`;
    expect(await run(code)).toEqual(["done"]);
  });

  test("leaves pipes alone when the disk is full", async () => {
    const code = `
try: os.write(f, MEGABYTE * 9)
except OSError as error: print(errno.errorcode[error.errno])
print("x" * 100_000)
print(subprocess.run(["cat"], input=MEGABYTE * 20, stdout=subprocess.PIPE).stdout == MEGABYTE * 20)`;
    expect(await run(code)).toEqual(["EDQUOT", "x".repeat(100_000), "True"]);
    expect(readdirSync(workspaceDir)).toEqual(["file"]);
  });
});
