import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { protectedRoots } from "../../../src/isolation/protected/protected-roots.ts";
import { describeWithIsolations } from "../../support/isolations.ts";
import { testPython } from "../../support/pythons.ts";
import { bare, forked, spawned, type Way } from "../jailed.ts";

const python = testPython("debian");

/** A user's folder with protected names, where Landlock can only grant the entries around them. */
describeWithIsolations(
  "a workspace with protected names, without namespaces",
  (isolation) => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-guarded-")));
    const [workspace, tmp, secret] = ["work", "tmp", "secret"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    chmodSync(folder, 0o755);
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    beforeEach(layOut);

    function layOut(): void {
      rmSync(workspace, { recursive: true, force: true });
      mkdirSync(join(workspace, ".git/hooks"), { recursive: true });
      mkdirSync(join(workspace, "src"));
      mkdirSync(join(workspace, "tools/env"), { recursive: true });
      mkdirSync(tmp, { recursive: true });
      writeFileSync(join(workspace, ".git/HEAD"), "ref: refs/heads/main\n");
      writeFileSync(join(workspace, ".git/config"), "[core]\n");
      writeFileSync(join(workspace, ".npmrc"), "registry=here\n");
      writeFileSync(join(workspace, "README.md"), "read me\n");
      writeFileSync(join(workspace, "src/a.py"), "a = 1\n");
      writeFileSync(secret, "secret\n");
    }

    const run = async (code: string, way: Way = spawned): Promise<string[]> => {
      const script = join(folder, "script.py");
      // Even without other protection: the control does real damage.
      writeFileSync(script, `${PRELUDE}\nos.chdir("${workspace}")\n${code}`);
      const jail = await localJail({
        isolation,
        environmentPaths: [],
        python,
        workspaceDir: workspace,
        workspaceInPlace: true,
        allowRead: [script],
        tmpDir: tmp,
        protectedPaths: [join(workspace, "tools/env")],
        protectedRoots: protectedRoots([workspace], []),
      });
      const ran = await way.run(script, [], { python, jail, folder });
      expect(ran.stderr).toBe("");
      return ran.stdout.trim().split("\n");
    };

    test.each([spawned, forked])("code works in it as anywhere else ($name)", async (way) => {
      const code = `
open("out.csv", "w").write("1,2")
open("out.csv", "a").write(",3")
with open("README.md", "r+") as file: file.truncate(4)
os.truncate("src/a.py", 1)
os.makedirs("new/deep"); open("new/deep/file", "x").write("x"); os.chmod("new/deep/file", 0o640)
os.utime("out.csv", ns=(1, 2_000_000_001))
os.rename("out.csv", "src/moved.csv"); os.replace("src/moved.csv", "new/back.csv")
os.symlink("new/back.csv", "link"); print(open("link").read()); open("link", "w").write("through")
os.link("new/back.csv", "second")
shutil.copy2("new/back.csv", "copy"); shutil.copytree("new", "tree")
open("tools/beside", "w").write("x")
os.mkfifo("pipe"); os.unlink("pipe")
shutil.rmtree("src"); os.mkdir("src"); open("src/again", "w").write("x")
os.umask(0o077); open("private", "w").close(); os.mkdir("closed"); print(oct(os.stat("private").st_mode), oct(os.stat("closed").st_mode))
print(tempfile.NamedTemporaryFile(dir=".").write(b"x"), tempfile.TemporaryFile(dir=".").write(b"x"))
with tempfile.TemporaryFile(dir=".") as nameless: os.fchmod(nameless.fileno(), 0o600)
print(subprocess.run("mv copy kept && mv -n kept third && touch made && cp -a tree tree2 && rm -r tree && ln -s made way && echo ok > way && cat made && tar cf t.tar tree2 && rm -r tree2 && tar xf t.tar && ls tree2", shell=True, capture_output=True, text=True))
`;
      const told = await run(code, way);
      expect(told.slice(0, 3)).toEqual(["1,2,3", "0o100600 0o40700", "1 1"]);
      expect(told[3]).toContain("returncode=0, stdout='ok\\nback.csv\\ndeep\\n', stderr=''");
      expect(readdirSync(workspace).sort()).toEqual(
        [".git", ".npmrc", "README.md", "closed", "link", "made", "new", "private", "second"].concat([
          "src",
          "t.tar",
          "third",
          "tools",
          "tree2",
          "way",
        ]),
      );
      expect(readFileSync(join(workspace, "README.md"), "utf8")).toBe("read");
      expect(readFileSync(join(workspace, "second"), "utf8")).toBe("through");
      expect(statSync(join(workspace, "new/deep/file")).mode & 0o777).toBe(0o640);
    });

    test("errors are those of the system", async () => {
      const code = `
print(tried(lambda: open("missing/file", "w")), tried(lambda: open("README.md", "x")), tried(lambda: os.mkdir("src")))
print(tried(lambda: os.rmdir("src")), tried(lambda: os.unlink("none")), tried(lambda: os.rename("none", "x")))
print(tried(lambda: open("README.md/x", "w")), tried(lambda: os.open("link", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)))`;
      const told = await run(`os.symlink("README.md", "link")\n${code}`);
      expect(told).toEqual(["ENOENT EEXIST EEXIST", "ENOTEMPTY ENOENT ENOENT", "ENOTDIR ELOOP"]);
    });

    const attempts = `
os.symlink(".git", "alias"); os.symlink(".git/config", "settings"); os.makedirs("evil/hooks")
here = os.open(".", os.O_RDONLY); git = os.open(".git", os.O_RDONLY)
reader = os.open(".git/config", os.O_RDONLY)
ways = {
    "open": lambda: open(".git/config", "a"),
    "absolute": lambda: open(os.path.abspath(".git/config"), "a"),
    "dots": lambda: open("src/../.git/config", "a"),
    "alias": lambda: open("alias/config", "a"),
    "settings": lambda: open("settings", "a"),
    "descriptor": lambda: os.open("config", os.O_WRONLY, dir_fd=git),
    "again": lambda: os.open("/proc/self/fd/%d" % reader, os.O_WRONLY),
    "create": lambda: open(".git/hooks/pre-commit", "x"),
    "new": lambda: open(".envrc", "x"),
    "folder": lambda: os.mkdir(".vscode"),
    "slash": lambda: os.mkdir(".vscode/"),
    "case": lambda: os.mkdir(".VSCode"),
    "ignored": lambda: os.mkdir(".vs\\u200bcode"),
    "link": lambda: os.symlink("evil", ".claude"),
    "rename": lambda: os.rename("evil", ".husky"),
    "replace": lambda: os.rename("README.md", ".npmrc"),
    "away": lambda: os.rename(".git", "old"),
    "out": lambda: os.rename(".git/config", "config"),
    "exchange": lambda: exchange("README.md", ".npmrc"),
    "above": lambda: os.rename("tools", "old"),
    "inside": lambda: open("tools/env/pyvenv.cfg", "w"),
    "hard": lambda: os.link(".git/config", "hard"),
    "elsewhere": lambda: os.link("${secret}", "hard"),
    "remove": lambda: os.unlink(".npmrc"),
    "rmdir": lambda: os.rmdir(".git/hooks"),
    "truncate": lambda: os.truncate(".git/config", 0),
    "node": lambda: os.mknod(".mcp.json"),
    "device": lambda: os.mknod("device", 0o20666, os.makedev(1, 3)),
    "owner": lambda: os.mknod("owner", 0o104755),
    "mode": lambda: os.chmod(".git/config", 0o777),
    "times": lambda: os.utime(".git/hooks"),
    "nameless": lambda: os.open(".git", os.O_TMPFILE | os.O_WRONLY),
    "outside": lambda: open("../secret", "a"),
    "beside": lambda: open("../beside", "x"),
}
for name, way in ways.items():
    print(name, tried(way))`;

    test("protected names stay as they are, whichever way they are named", async () => {
      const before = snapshot();
      const told = await run(attempts);
      const through = told.filter((line) => !/ (EACCES|EPERM|EXDEV|EEXIST|EOPNOTSUPP|ENOTSUP)$/.test(line));
      expect(through).toEqual([]);
      expect(snapshot()).toEqual(before);
      expect(existsSync(join(folder, "beside"))).toBe(false);
      // Without the sandbox most of it succeeds.
      layOut();
      const free = await run(attempts, bare);
      expect(free.filter((line) => line.endsWith(" None")).length).toBeGreaterThan(20);
      rmSync(join(folder, "beside"), { force: true });
    });

    test("a path that changes after the look leads nowhere else", async () => {
      const before = snapshot();
      const code = `
libc = ctypes.CDLL(None, use_errno=True)
fine, other = b"fine.txt\\0\\0\\0", b".git/config"
path = ctypes.create_string_buffer(fine, 32)
over = False
def swap():
    while not over:
        ctypes.memmove(path, other, 11)
        ctypes.memmove(path, fine, 11)
threading.Thread(target=swap, daemon=True).start()
opened = 0
for _ in range(2000):
    number = libc.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if number >= 0:
        opened += 1
        os.write(number, b"planted")
        os.close(number)
over = True
print(opened > 0)`;
      expect(await run(code)).toEqual(["True"]);
      expect(snapshot()).toEqual(before);
    });

    test("nor does a folder that becomes a link meanwhile", async () => {
      const before = snapshot();
      const code = `
os.mkdir("swapped"); os.symlink(".git", "other")
over = False
def swap():
    while not over: exchange("swapped", "other")
threading.Thread(target=swap, daemon=True).start()
wrote = 0
for _ in range(2000):
    try:
        with open("swapped/config", "a") as file: file.write("planted")
        wrote += 1
    except OSError: pass
over = True
print(wrote > 0)`;
      expect(await run(code)).toEqual(["True"]);
      expect(snapshot()).toEqual(before);
    });

    test("a signal in the middle does not make a call happen twice", async () => {
      const code = `
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for number in range(1500):
    os.mkdir("d%d" % number)
    os.close(os.open("d%d/f" % number, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(os.listdir(".")), len(os.listdir("/proc/self/fd")) < 10)`;
      const before = readdirSync(workspace).length;
      expect(await run(code)).toEqual([`${before + 1500} True`]);
    });

    /** Files that must not change. */
    function snapshot(): Record<string, unknown> {
      const names = [".git", ".git/config", ".git/hooks", ".git/HEAD", ".npmrc", "tools/env"];
      const state = (path: string) => {
        const { ino, mode, mtimeMs } = lstatSync(path);
        return { ino, mode, mtimeMs };
      };
      const missing = [".vscode", ".VSCode", ".envrc", ".claude", ".husky", ".mcp.json"];
      return {
        secret: readFileSync(secret, "utf8"),
        config: readFileSync(join(workspace, ".git/config"), "utf8"),
        git: readdirSync(join(workspace, ".git")),
        states: names.map((name) => state(join(workspace, name))),
        missing: missing.filter((name) => existsSync(join(workspace, name))),
      };
    }
  },
  ["landlock"],
);

const PRELUDE = `
import ctypes, errno, os, shutil, signal, stat, subprocess, tempfile, threading
def tried(act):
    try: act()
    except OSError as error: return errno.errorcode[error.errno]
def exchange(one, other):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, one.encode(), -100, other.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")
`;
