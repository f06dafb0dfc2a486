// What the test suites need beyond npm packages: system programs, Pythons with ipykernel, Jupyter servers, and Python
// clients in separate environments. Nothing here fails the setup. A suite whose requirement is missing is skipped with
// the reason (test/support/requirements.ts, which uses the same paths), or fails with CELLWRIGHT_REQUIRE=all.
import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { rememberFailures } from "./remember-failures.mjs";

/** Installed if one of the commands is on the PATH, or the file exists. */
const systemPackages = [
  { name: "bubblewrap", commands: ["bwrap"], on: ["linux"] },
  { name: "chromium", commands: ["chromium", "chromium-browser", "google-chrome"], on: ["linux", "darwin"] },
  { name: "openssl", commands: ["openssl"], on: ["linux"] },
  // For `ip`: the attack creates its own network.
  { name: "iproute2", commands: ["ip"], on: ["linux"] },
  { name: "jupyter-server", file: "/usr/lib/python3/dist-packages/jupyter_server", on: ["linux"] },
  ...["ipykernel", "matplotlib", "numpy", "pip"].map((name) => ({
    name: `python3-${name}`,
    file: `/usr/lib/python3/dist-packages/${name}`,
    on: ["linux"],
  })),
];

/** One environment each in .cache/test-python, from scripts/test-requirements: their dependencies conflict. */
const pythonPrograms = ["fastmcp", "mcpo", "jupyter-server"];

/** Imported once to compile byte code. Compiling the whole environment would take three times as long. */
const importedByTests =
  "import ipykernel.kernelapp, nbformat, pandas, matplotlib.pyplot, seaborn, plotly.express, altair, sympy, " +
  "bokeh.plotting, openpyxl, tqdm, kaleido, vl_convert, IPython.core.completer, matplotlib_inline.backend_inline";

/** Timeout of one download. Chromium is the largest, about 100 MB. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/** System packages are downloaded while environments are unpacked: in parallel this takes half the time. */
export async function prepareTestMachine({ root, say }) {
  const consequence = "the suites that need it are skipped";
  const attempt = rememberFailures({ folder: join(root, ".cache/setup-failures"), say, consequence });
  const system = prepareSystemPackages(attempt, say);
  const { createEnvironment } = await import("../dist/kernels/local/environments/create/create.js");
  const { standardPackages } = await import("../dist/kernels/local/environments/create/packages.js");

  /** Uses `cellwright env create`. Resolves with the reason of a failure. */
  const create = async (folder, packages) => {
    const options = { folder, packages, cacheDir: join(root, ".cache"), env: process.env, withoutByteCode: true };
    const tryIt = () =>
      createEnvironment(options).then(
        () => undefined,
        (error) => error.message,
      );
    const failure = await tryIt();
    // Debian's Python has neither pip nor venv by default.
    if (failure === undefined || !/venv|ensurepip/.test(failure) || !isRootOnDebian()) return failure;
    await system;
    return (await aptInstall(["python3-venv"])) ?? tryIt();
  };
  const programs = async () => {
    for (const name of pythonPrograms) await preparePythonProgram(name, { root, attempt, create });
  };
  const warmUp = await prepareTestPython({ root, attempt, create, packages: standardPackages });
  await Promise.all([system, warmUp?.(), programs()]);
}

async function prepareSystemPackages(attempt, say) {
  const missing = systemPackages
    .filter(({ on }) => on.includes(process.platform))
    .filter(({ commands, file }) => !(commands?.some(isOnPath) ?? existsSync(file)))
    .map(({ name }) => name);
  if (missing.length === 0) return;
  const names = missing.join(", ");
  if (isRootOnDebian()) await attempt("system-packages", `installing ${names} with apt-get`, () => aptInstall(missing));
  else say(`not installing ${names}, which is done only as root on Debian; suites that need them are skipped`);
}

/**
 * The Python of test/support/pythons.ts: a managed environment with one more package. Resolves with a warm-up function
 * for a new one, which can run in the background.
 */
async function prepareTestPython({ root, attempt, create, packages }) {
  const folder = join(root, ".cache/test-env");
  const wanted = [...packages, "bokeh"];
  if (process.env.CELLWRIGHT_TEST_PYTHON || holds(folder, wanted)) return;
  const what = "creating a Python environment for the tests of local kernels";
  await attempt("test-env", what, () => create(folder, wanted));
  // -I: ignores PYTHONDONTWRITEBYTECODE.
  return () => holds(folder, wanted) && run(join(folder, "bin/python"), ["-I", "-c", importedByTests]);
}

async function preparePythonProgram(name, { root, attempt, create }) {
  const folder = join(root, ".cache/test-python", name);
  const lines = readFileSync(join(root, "scripts/test-requirements", `${name}.txt`), "utf8").split("\n");
  // pip, because suites fetch wheels with it.
  const packages = ["pip", ...lines.filter((line) => /^\w/.test(line))];
  if (holds(folder, packages)) return;
  await attempt(`python-${name}`, `creating a Python environment for the ${name} tests`, () =>
    create(folder, packages),
  );
}

/** True if an environment is complete, was created at this path, and has these packages. */
function holds(folder, packages) {
  const record = join(folder, "cellwright.json");
  if (!existsSync(record)) return false;
  const { folder: madeAs, packages: has } = JSON.parse(readFileSync(record, "utf8"));
  return madeAs === folder && packages.every((name) => has.includes(name));
}

/** Resolves with the reason of a failure. Package lists are updated only if the known ones are not enough. */
async function aptInstall(names) {
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
  return (await install()) && ((await run("apt-get", [...options, "update"])) ?? install());
}

function isRootOnDebian() {
  return (
    process.getuid?.() === 0 &&
    existsSync("/etc/os-release") &&
    /^ID="?debian"?$/m.test(readFileSync("/etc/os-release", "utf8"))
  );
}

/** Resolves with the last line of a failed command, or undefined on success. */
function run(command, args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"], timeout: INSTALL_TIMEOUT_MS, env });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    said = (said + text).slice(-10_000);
  });
  return new Promise((resolve) => {
    const failed = (why) => resolve(`${basename(command)}: ${said.trim().split("\n").pop() || why}`);
    child.on("error", (error) => failed(error.message));
    child.on("close", (status, signal) => (status === 0 ? resolve(undefined) : failed(`exit ${status ?? signal}`)));
  });
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
