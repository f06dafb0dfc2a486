// What the test suites need beyond npm packages: bubblewrap, Chromium, and Python clients in environments of their own.
// Nothing here fails the set-up. A suite whose need is not met is skipped by name, with the reason
// (test/support/requirements.ts, which knows the same places), or fails when CELLWRIGHT_REQUIRE=all.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";

/** Each is there when one of its commands is on the PATH. */
const systemPackages = [
  { name: "bubblewrap", commands: ["bwrap"], on: ["linux"] },
  { name: "chromium", commands: ["chromium", "chromium-browser", "google-chrome"], on: ["linux", "darwin"] },
];

/** One environment each in .cache/test-python, from scripts/test-requirements: their dependencies exclude each other. */
const pythonClients = ["fastmcp", "mcpo"];

const OLDEST_PYTHON = [3, 10];

/** A machine without network would try, wait and fail again before each test run. CI always tries. */
const FAILURE_REMEMBERED_MS = 60 * 60_000;

/** Bounds one download that hangs. Chromium is the largest, about 100 MB. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

export function prepareTestMachine({ root, say }) {
  const attempt = rememberFailures(join(root, ".cache/setup-failures"), say);
  prepareSystemPackages(attempt, say);
  for (const name of pythonClients) preparePythonClient(name, root, attempt);
}

function prepareSystemPackages(attempt, say) {
  const missing = systemPackages
    .filter(({ commands, on }) => on.includes(process.platform) && !commands.some(isOnPath))
    .map(({ name }) => name);
  if (missing.length === 0) return;
  const names = missing.join(" and ");
  if (isRootOnDebian()) attempt("system-packages", `installing ${names} with apt-get`, () => aptInstall(missing));
  else say(`not installing ${names}, which is done only as root on Debian; the suites that need it are skipped`);
}

function preparePythonClient(name, root, attempt) {
  const folder = join(root, ".cache/test-python", name);
  const requirements = join(root, "scripts/test-requirements", `${name}.txt`);
  const python = join(folder, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  const stamp = join(folder, "requirements.sha256");
  // The folder counts too: an environment holds absolute paths and does not survive being moved.
  const hash = createHash("sha256").update(folder).update(readFileSync(requirements)).digest("hex");
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, "utf8") === hash) return;

  attempt(`python-${name}`, `creating a Python environment for the ${name} tests`, () => {
    const system = findPython() ?? (isRootOnDebian() && !aptInstall(["python3-venv"]) ? findPython() : undefined);
    if (!system) return `there is no python3 of at least ${OLDEST_PYTHON.join(".")} with venv and pip`;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(dirname(folder), { recursive: true });
    const failure =
      run(system, ["-m", "venv", folder]) ??
      run(python, [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries=2",
        "-r",
        requirements,
      ]);
    if (!failure) writeFileSync(stamp, hash);
    return failure;
  });
}

function findPython() {
  const check = `import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < (${OLDEST_PYTHON.join(", ")}))`;
  const names = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python"];
  return names.find((name) => isOnPath(name) && spawnSync(name, ["-c", check], { stdio: "ignore" }).status === 0);
}

/** Returns why it failed, or undefined. The package lists are fetched only when what is known here does not do. */
function aptInstall(names) {
  const options = [
    "-qq",
    "-o",
    "DPkg::Lock::Timeout=60",
    "-o",
    "Acquire::Retries=1",
    "-o",
    "Acquire::http::Timeout=20",
  ];
  const install = () => run("apt-get", [...options, "install", "-y", "--no-install-recommends", ...names]);
  return install() && (run("apt-get", [...options, "update"]) ?? install());
}

function isRootOnDebian() {
  return (
    process.getuid?.() === 0 &&
    existsSync("/etc/os-release") &&
    /^ID="?debian"?$/m.test(readFileSync("/etc/os-release", "utf8"))
  );
}

/** Returns the last line a failed command said, or undefined when it succeeded. */
function run(command, args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const options = { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8", timeout: INSTALL_TIMEOUT_MS, env };
  const { status, stderr, error } = spawnSync(command, args, options);
  if (status === 0) return undefined;
  const lastLine = stderr?.trim().split("\n").pop();
  return `${basename(command)}: ${error?.message ?? (lastLine || `exit ${status}`)}`;
}

/** Wraps a step that may fail: says what it does, says why it failed, and lets it rest for a while then. */
function rememberFailures(folder, say) {
  return (key, what, step) => {
    const note = join(folder, key);
    const rests = existsSync(note) && Date.now() - statSync(note).mtimeMs < FAILURE_REMEMBERED_MS;
    if (rests && process.env.CELLWRIGHT_REQUIRE !== "all") {
      return say(
        `not ${what}: it failed within the last hour (${readFileSync(note, "utf8")}). Remove ${note} to try now.`,
      );
    }
    say(what);
    const failure = step();
    rmSync(note, { force: true });
    if (!failure) return;
    say(`${what} failed, so the suites that need it are skipped: ${failure}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(note, failure);
  };
}

function isOnPath(command) {
  const extensions = process.platform === "win32" ? [".exe", ".cmd"] : [""];
  return (process.env.PATH ?? "").split(delimiter).some((folder) =>
    extensions.some((extension) => {
      try {
        accessSync(join(folder, command + extension), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    }),
  );
}
