// The user's folders that sessions work in, what an attack plants there, and whether a program outside has run it.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pythonText } from "./case.mjs";

const q = JSON.stringify;

/** A folder of the user's: a repository with a commit, or an ordinary one. */
export function makeProject(stage, { repository = true } = {}) {
  const folder = mkdtempSync(join(stage.folder, "project-"));
  writeFileSync(join(folder, "notes.txt"), "notes\n");
  if (repository) {
    git(folder, "init", "-q");
    git(folder, "config", "user.name", "somebody");
    git(folder, "config", "user.email", "somebody@example.org");
    git(folder, "add", "-A");
    git(folder, "commit", "-qm", "first");
    // Submodules that are not checked out: without settings and folder, and with an empty folder.
    mkdirSync(join(folder, "libs/mod"), { recursive: true });
    const commit = git(folder, "rev-parse", "HEAD").stdout.trim();
    for (const path of ["linked", "libs/mod"])
      git(folder, "update-index", "--add", "--cacheinfo", `160000,${commit},${path}`);
    git(folder, "commit", "-qm", "links");
  }
  return folder;
}

/** A repository whose settings name files beside `.git`. */
export function makeProjectWithSettings(stage) {
  const folder = makeProject(stage);
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "tools/monitor.sh"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  git(folder, "config", "core.hooksPath", ".githooks");
  git(folder, "config", "include.path", "../.gitconfig.shared");
  git(folder, "config", "core.fsmonitor", "./tools/monitor.sh");
  return folder;
}

/** Python that tries to change the files that these settings name. */
export function plantNamed(marker) {
  const hook = `#!/bin/sh\ntouch ${marker}\n`;
  const config = `[core]\n\tfsmonitor = "touch ${marker}; false"\n`;
  return `
import os
HOOK, CONFIG = ${pythonText(hook)}, ${pythonText(config)}
def put(path, text):
    with open(path, "w") as file: file.write(text)
    try: os.chmod(path, 0o755)
    except OSError: pass
def hooks(folder):
    os.makedirs(folder, exist_ok=True)
    for name in ("pre-commit", "post-index-change"): put(folder + "/" + name, HOOK)
ways = {
    "the folder of hooks": lambda: hooks(".githooks"),
    "a folder moved there": lambda: (hooks("evil"), os.rename("evil", ".githooks")),
    "an included file": lambda: put(".gitconfig.shared", CONFIG),
    "a file moved there": lambda: (put("evil.conf", CONFIG), os.rename("evil.conf", ".gitconfig.shared")),
    "a program": lambda: put("tools/monitor.sh", HOOK),
    "another program": lambda: (os.remove("tools/monitor.sh"), put("tools/monitor.sh", HOOK)),
    "its folder": lambda: (os.rename("tools", "tools2"), os.makedirs("tools"), put("tools/monitor.sh", HOOK)),
}
done = []
for name, way in ways.items():
    try: way(); done.append(name)
    except Exception as error: pass
print("[done]", ", ".join(done))
`;
}

/** As the user runs it outside, without the settings of this machine. */
export function git(folder, ...args) {
  const env = { PATH: process.env.PATH, HOME: folder, GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null" };
  return spawnSync("git", ["-c", "safe.directory=*", "-C", folder, ...args], { env, encoding: "utf8" });
}

/** What the user's editor or agent does automatically. True: something planted was run. */
export function isObeyed(folder, marker) {
  for (const args of [["status"], ["status", "--short"], ["commit", "--allow-empty", "-m", "by the user"]])
    git(folder, ...args);
  return existsSync(marker);
}

/**
 * Python that tries every way to make the next `git` outside run a program, and reports the ways that were not refused.
 * `.git` may be a repository, or missing.
 */
export function plant(marker) {
  const config = `[core]\n\tbare = false\n\trepositoryformatversion = 0\n\tfsmonitor = "touch ${marker}; false"\n`;
  const hook = `#!/bin/sh\ntouch ${marker}\n`;
  return `
import os, shutil
CONFIG, HOOK = ${pythonText(config)}, ${pythonText(hook)}
def put(path, text, mode="w"):
    with open(path, mode) as file: file.write(text)
    try: os.chmod(path, 0o755)
    except OSError: pass
def repo(folder, config=CONFIG):
    for name in ("objects", "refs/heads", "hooks"): os.makedirs(folder + "/" + name, exist_ok=True)
    put(folder + "/HEAD", "ref: refs/heads/main\\n"); put(folder + "/config", config); put(folder + "/hooks/pre-commit", HOOK)
def swap():
    shutil.rmtree("evil", ignore_errors=True); repo("evil")
    os.rename(".git", "old.git"); os.rename("evil", ".git")
def swap_file():
    put("evil-config", CONFIG); os.rename("evil-config", ".git/config")
def swap_hooks():
    os.makedirs("evil-hooks", exist_ok=True); put("evil-hooks/pre-commit", HOOK)
    os.rename(".git/hooks", ".git/old-hooks"); os.rename("evil-hooks", ".git/hooks")
def linked():
    os.symlink(".git", "g"); put("g/config", CONFIG, "a")
def hard():
    os.link(".git/config", "c"); put("c", CONFIG, "a")
def common():
    os.makedirs("common", exist_ok=True); repo("common"); put(".git/commondir", "../common")
def submodule():
    import subprocess
    def git(*arguments, folder="."):
        done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, capture_output=True, text=True)
        if done.returncode: raise OSError(done.stderr)
        return done.stdout.strip()
    os.makedirs("planted", exist_ok=True)
    git("init", "-q", folder="planted"); put("planted/a", "1"); git("add", "a", folder="planted"); git("commit", "-qm", "x", folder="planted")
    put("planted/.git/config", CONFIG, "a")
    git("update-index", "--add", "--cacheinfo", "160000," + git("rev-parse", "HEAD", folder="planted") + ",planted")
def bare():
    if os.path.isdir(".git/objects"): raise OSError("git looks into .git first")
    repo(".")
    put("config", CONFIG + '\\tworktree = .\\n')
def planted_link(path):
    if not os.path.isdir(".git/objects"): raise OSError("nothing looks there")
    repo(path + "/.git")
def planted():
    if os.path.isdir(".git/objects"): raise OSError("there is one")
    repo(".git")
ways = {
    "append to .git/config": lambda: put(".git/config", CONFIG, "a"),
    "replace .git/config": swap_file,
    "remove and write .git/config": lambda: (os.remove(".git/config"), put(".git/config", CONFIG)),
    "config.worktree": lambda: put(".git/config.worktree", CONFIG),
    "commondir": common,
    "a planted submodule": submodule,
    "a repository in a link of the index": lambda: planted_link("linked"),
    "in one with a folder": lambda: planted_link("libs/mod"),
    "in a folder moved there": lambda: (planted_link("elsewhere2"), os.rename("elsewhere2", "linked")),
    "a hook": lambda: put(".git/hooks/pre-commit", HOOK),
    "other hooks": swap_hooks,
    "a hard link": hard,
    "a link": linked,
    "another .git": swap,
    "no .git before": planted,
    "a file .git": lambda: (os.makedirs("elsewhere", exist_ok=True), repo("elsewhere"), put(".git", "gitdir: elsewhere\\n")),
    "chmod and write": lambda: (os.chmod(".git/config", 0o666), put(".git/config", CONFIG, "a")),
    "a bare repository": bare,
    ".vscode": lambda: (os.makedirs(".vscode", exist_ok=True), put(".vscode/tasks.json", "{}")),
    ".mcp.json": lambda: put(".mcp.json", "{}"),
    ".claude": lambda: (os.makedirs(".claude", exist_ok=True), put(".claude/settings.json", "{}")),
    ".envrc": lambda: put(".envrc", "touch x"),
    ".npmrc": lambda: put(".npmrc", "touch x"),
    ".gitmodules": lambda: put(".gitmodules", "[x]"),
    ".idea by a rename": lambda: (os.makedirs("idea", exist_ok=True), os.rename("idea", ".idea")),
}
done = []
for name, way in ways.items():
    try: way(); done.append(name)
    except Exception as error: pass
print("[done]", ", ".join(done))
`;
}

/** The ways that were not refused, as reported by the cell. */
export function waysDone(reply) {
  const told = /\[done\] (.*)/.exec(reply.text);
  if (!told) throw new Error(`the attack did not run to its end: ${reply.text.slice(0, 400)}`);
  return told[1].trim() === "" ? [] : told[1].trim().split(", ");
}

/** Writing these proves nothing: the programs that obey them are not installed. */
export const silentNames = [".vscode", ".mcp.json", ".claude", ".envrc", ".npmrc", ".gitmodules", ".idea by a rename"];

/** A real environment, whose interpreter runs what a `.pth` file says. */
export function makeVenv(folder, name = ".venv") {
  const python = process.env.CELLWRIGHT_TEST_PYTHON ?? "python3";
  const made = spawnSync(python, ["-m", "venv", "--without-pip", join(folder, name)], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(`no environment could be made: ${made.stderr}`);
  const asked = spawnSync(join(folder, name, "bin/python"), ["-c", "import site; print(site.getsitepackages()[0])"], {
    encoding: "utf8",
  });
  return {
    run: () => spawnSync(join(folder, name, "bin/python"), ["-c", "1"]),
    site: asked.stdout.trim().slice(folder.length + 1),
  };
}

export const startupLine = (marker) => `import pathlib; pathlib.Path(${q(marker)}).touch()\n`;

/** A marker that does not exist yet, a new one for each attempt. */
export function markerIn(stage) {
  return join(mkdtempSync(join(stage.folder, "marker-")), "ran");
}

export function filesDir(stage) {
  const folder = mkdtempSync(join(stage.folder, "files-"));
  mkdirSync(join(folder, "bin"));
  return folder;
}
