/** What a suite may need from the machine. `npm test` installs it if it can (scripts/test-machine.mjs). */

import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, test } from "vitest";
import type { Isolation } from "../../src/isolation/jail.ts";
import { type TestPython, testPython } from "./pythons.ts";

const root = join(import.meta.dirname, "../..");

/** Each finds its program, or says in one sentence why not. */
const finders = {
  /** bubblewrap, and a system that lets it create namespaces. */
  bubblewrap: findBubblewrap,
  /** Any isolation tier. */
  isolation: findIsolation,
  chromium: () => {
    const path = onPath(["chromium", "chromium-browser", "google-chrome"]);
    return path ? { path } : { reason: "chromium is not on the PATH" };
  },
  /** A Python with the newest ipykernel and all that a managed environment has. */
  managedPython: findManagedPython,
  /** Debian's own Python with Debian's ipykernel, the libraries that a zygote imports, and pip. */
  debianPython: () => withDebianPackages(["ipykernel", "matplotlib", "numpy", "pip"]),
  /** The same, and isolation around it. */
  localKernels: () => {
    const isolation = findIsolation();
    return "reason" in isolation ? isolation : findManagedPython();
  },
  /** A Python that has the `fastmcp` client. */
  fastmcp: () => inPythonEnvironment("fastmcp", "python"),
  /** The `mcpo` program. */
  mcpo: () => inPythonEnvironment("mcpo", "mcpo"),
  /** A Python with the newest Jupyter server. */
  jupyterServer: () => inPythonEnvironment("jupyter-server", "python"),
  /** Debian's own Python with Debian's Jupyter server, the oldest that must work. */
  debianJupyterServer: () => withDebianPackages(["jupyter_server", "ipykernel", "matplotlib", "numpy"]),
  /** The permission to mount a file system, which root has outside of containers. */
  mounts: () => {
    const script = 'cd "$(mktemp -d)" && mount -t tmpfs tmpfs "$PWD" && umount "$PWD" && rmdir "$PWD"';
    const run = spawnSync("sh", ["-c", script], { encoding: "utf8" });
    return run.status === 0 ? { path: "mount" } : { reason: "only root may mount, and not in a container" };
  },
  /** A package index that responds: the installer's own wheel is fetched from it. */
  index: () => {
    // The program asks pip for the index, too.
    if (!onPath(["pip"])) return { reason: "pip is not on the PATH" };
    const folder = join(root, ".cache/test-index");
    const target = ["--python-version", "3.14", "--only-binary", ":all:", "--no-deps", "--dest", folder];
    if (!existsSync(folder)) spawnSync("pip", ["download", "--quiet", ...target, "micropip"], { timeout: 60_000 });
    return existsSync(folder) ? { path: folder } : { reason: "pip could not fetch a wheel" };
  },
} satisfies Record<string, () => Found>;

type Found = { path: string } | { reason: string };
export type Requirement = keyof typeof finders;

/** Whether the machine has it; `path` starts it, `reason` says what is missing. */
export function requirement(name: Requirement): { ok: boolean; path: string; reason: string } {
  const found: Found = finders[name]();
  return "path" in found ? { ok: true, path: found.path, reason: "" } : { ok: false, path: name, ...found };
}

/**
 * `describe` for a suite with a requirement, whose path it gets. Without it the suite is skipped with the reason in its
 * title; with CELLWRIGHT_REQUIRE=all, as in CI, that is a failure instead.
 */
export function describeWith(name: Requirement, title: string, suite: (path: string) => void): void {
  const { ok, path, reason } = requirement(name);
  describeFound(name, ok ? { found: path } : { reason }, { title, suite });
}

/** The same, once for the newest ipykernel and once for the oldest. */
export function describeWithPythons(title: string, suite: (python: TestPython) => void): void {
  describeWith("managedPython", `${title} (managed Python)`, () => suite("managed"));
  describeWith("debianPython", `${title} (Debian's Python)`, () => suite("debian"));
}

/** The same for a requirement that is found in another way. */
export function describeFound<T>(
  name: string,
  result: { found: T } | { reason: string },
  { title, suite, timeout }: { title: string; suite: (found: T) => void; timeout?: number },
): void {
  if ("found" in result) describe(title, { timeout }, () => suite(result.found));
  else if (process.env.CELLWRIGHT_REQUIRE === "all") {
    describe(title, () => {
      test(`${name} is there`, () => {
        throw new Error(`This suite needs ${name}, and CELLWRIGHT_REQUIRE=all: ${result.reason}`);
      });
    });
  } else describe.skip(`${title} (needs ${name}: ${result.reason})`, () => {});
}

function findBubblewrap(): Found {
  const path = onPath(["bwrap"]);
  if (!path) return { reason: "bwrap is not on the PATH" };
  const run = spawnSync(path, ["--unshare-all", "--ro-bind", "/", "/", "true"], { encoding: "utf8" });
  return run.status === 0 ? { path } : { reason: `bwrap does not work here: ${run.stderr.trim() || run.error}` };
}

let knownIsolation: Isolation | { obstacle: string } | undefined;

/** Whether `--jail auto` gives code its own paths, such as /workspace, and its own network: only with namespaces. */
export function hasNamespaces(): boolean {
  const found = isolationHere();
  return "tier" in found && found.tier === "namespaces";
}

function findIsolation(): Found {
  const found = isolationHere();
  return "obstacle" in found ? { reason: found.obstacle } : { path: found.launcher.program };
}

/** Detected by the program in advance, because a finder is synchronous. */
function isolationHere(): Isolation | { obstacle: string } {
  const file = pathToFileURL(join(root, "dist/isolation/isolation.js"));
  const script = `console.log(JSON.stringify(await (await import("${file}")).findIsolation("auto")))`;
  if (!knownIsolation) {
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    knownIsolation = (stdout ? JSON.parse(stdout) : { obstacle: stderr }) as Isolation | { obstacle: string };
  }
  return knownIsolation;
}

function findManagedPython(): Found {
  const path = testPython("managed");
  return existsSync(path) ? { path } : { reason: `there is no ${path}; \`node scripts/setup.mjs test\` makes it` };
}

/** Debian's Python, if it has all of these modules. */
function withDebianPackages(modules: string[]): Found {
  const path = testPython("debian");
  const script = "import importlib.util, sys; print(*(m for m in sys.argv[1:] if not importlib.util.find_spec(m)))";
  const run = spawnSync(path, ["-I", "-c", script, ...modules], { encoding: "utf8" });
  if (run.status !== 0) return { reason: `${path} does not start` };
  const missing = run.stdout.trim();
  return missing ? { reason: `${path} lacks ${missing.replaceAll(" ", ", ")}` } : { path };
}

function inPythonEnvironment(environment: string, program: string): Found {
  const [folder, extension] = process.platform === "win32" ? ["Scripts", ".exe"] : ["bin", ""];
  const home = join(root, ".cache/test-python", environment);
  // Written last: without it the installation was interrupted.
  const complete = existsSync(join(home, "cellwright.json"));
  const path = join(home, folder, program + extension);
  if (complete && existsSync(path)) return { path };
  return { reason: "its Python environment is missing; `node scripts/setup.mjs test` makes it, or says why not" };
}

function onPath(commands: string[]): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return commands.flatMap((command) => folders.map((folder) => join(folder, command))).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
