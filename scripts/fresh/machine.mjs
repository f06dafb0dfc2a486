// A minimal Debian with only Node, npm, git and Python, like the machine of a first-time user. It shares the network and
// the kernel of the host, and none of its files.
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

const RELEASE = "bookworm";
/** Besides Node: what a first-time user is likely to have. */
const PACKAGES = ["ca-certificates", "git", "procps", "python3", "python3-venv"];
/** A user without privileges. */
export const ORDINARY_USER = "someone";

/** Configuration of package sources, copied if it exists and never shown. */
const clientFiles = ["/etc/npmrc", "/etc/pip.conf"];
const clientFolders = ["/etc/ssl/certs", "/etc/apt/apt.conf.d"];
const certificateVariables = [
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
];
const sourceVariables = [
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "NPM_CONFIG_REGISTRY",
  "PIP_INDEX_URL",
  "UV_INDEX_URL",
];

/** Root runs fail on skipped suites. Ordinary users have to skip some: only root can install what these need. */
const strictness = (user) => (user === "root" ? ["CELLWRIGHT_REQUIRE"] : []);

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cellwright-fresh");

/** Why no such machine can be created here, or undefined. */
export function obstacle() {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "it needs root on Linux";
  if (spawnSync("unshare", ["--mount", "--pid", "--fork", "true"]).status !== 0)
    return "it needs the right to mount, which root does not have in a container";
  if (!existsSync("/etc/debian_version")) return "it needs Debian's package sources, and this is not Debian";
  if (onPath("debootstrap")) return undefined;
  const install = () => spawnSync("apt-get", ["-qq", "install", "-y", "debootstrap"], { stdio: "ignore" });
  if (install().status !== 0) spawnSync("apt-get", ["-qq", "update"], { stdio: "ignore" });
  if (!onPath("debootstrap")) install();
  return onPath("debootstrap") ? undefined : "debootstrap is missing and apt-get could not install it";
}

/** A new machine with a clone of a repository's HEAD in a user's home. `remove` when done. */
export function createMachine({ repository, user }) {
  const home = user === "root" ? "/root" : `/home/${user}`;
  const folder = `${home}/cellwright`;
  const { root, remove } = createRoot({ packages: PACKAGES, user: ORDINARY_USER, home });
  const head = run("git", ["-C", repository, "rev-parse", "HEAD"]).trim();
  run("git", ["clone", "--quiet", repository, join(root, folder)]);
  run("git", ["-C", join(root, folder), "checkout", "--quiet", "--detach", head]);
  run("chroot", [root, "chown", "-R", `${user}:`, home]);
  chmodSync(join(root, home), 0o700);
  return {
    /** Resolves with the command's exit status. It gets no terminal and no input. */
    run: (command, { container = false } = {}) =>
      enter({ root, user, folder, command, container, env: { HOME: home, LANG: "C.UTF-8", CI: "true" } }),
    remove,
  };
}

/** The files of a new machine with Node: those of a minimal Debian with more packages, and an ordinary user. */
export function createRoot({ packages, user, home }) {
  removeAbandoned();
  const root = join(cache, `machine-${process.pid}-${randomBytes(3).toString("hex")}`);
  run("cp", ["-a", "--reflink=auto", makeBase(packages), root]);
  run("chroot", [root, "useradd", "--create-home", "--shell", "/bin/bash", user]);
  installNode(root);
  copyClientSettings(root, home);
  return { root, remove: () => rmSync(root, { recursive: true, force: true }) };
}

/** Created once per list of packages, then copied. */
function makeBase(packages) {
  const recipe = createHash("sha256")
    .update(JSON.stringify([RELEASE, packages]))
    .digest("hex")
    .slice(0, 12);
  const base = join(cache, `base-${recipe}`);
  if (existsSync(base)) return base;
  console.log("fresh: creating a minimal Debian, once");
  const growing = `${base}.${process.pid}`;
  const log = `${base}.log`;
  rmSync(growing, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const included = packages.length > 0 ? [`--include=${packages.join(",")}`] : [];
  const args = ["--variant=minbase", ...included, RELEASE, growing, ...debianMirror()];
  const made = spawnSync("debootstrap", args, { encoding: "utf8" });
  if (made.status !== 0) {
    writeFileSync(log, `${made.stdout}${made.stderr}`);
    throw new Error(`debootstrap failed; its output is in ${log}`);
  }
  renameSync(growing, base);
  return base;
}

/** The host's Debian mirror, if it is configured in the usual file. */
function debianMirror() {
  const folder = "/etc/apt/sources.list.d";
  const files = ["/etc/apt/sources.list", ...readdirSync(folder).map((name) => join(folder, name))];
  const lines = files.filter(existsSync).flatMap((file) => readFileSync(file, "utf8").split("\n"));
  const addresses = lines.filter((line) => /^(deb |URIs:)/.test(line)).flatMap((line) => line.split(/\s+/));
  return addresses.filter((address) => /^https?:\/\/.*debian\/?$/.test(address)).slice(0, 1);
}

function installNode(root) {
  const npm = process.env.npm_execpath
    ? dirname(dirname(process.env.npm_execpath))
    : join(dirname(dirname(process.execPath)), "lib/node_modules/npm");
  copyFileSync(process.execPath, join(root, "usr/bin/node"));
  cpSync(npm, join(root, "usr/lib/node_modules/npm"), { recursive: true });
  for (const name of ["npm", "npx"])
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(root, "usr/bin", name));
  run("chroot", [root, "node", "--version"]);
}

export function copyClientSettings(root, home) {
  for (const folder of clientFolders.filter(existsSync)) {
    mkdirSync(join(root, folder), { recursive: true });
    run("cp", ["-a", `${folder}/.`, join(root, folder)]);
  }
  const certificates = certificateVariables.map((name) => process.env[name]).filter(Boolean);
  for (const file of [...clientFiles, ...certificates].filter(existsSync)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    cpSync(file, join(root, file), { dereference: true });
  }
  const own = join(homedir(), ".npmrc");
  if (existsSync(own)) copyFileSync(own, join(root, home, ".npmrc"));
}

/**
 * Runs a command in a machine as one of its users; resolves with its exit status. `signal` ends all of the machine's
 * processes. `container`: as Docker's defaults have it, see enter.sh.
 */
export function enter({ root, user, folder, command, container, env, signal, stdout = "inherit" }) {
  const sources = [...sourceVariables, ...sourceVariables.map((name) => name.toLowerCase())];
  const passed = [...certificateVariables, ...sources, ...strictness(user)].filter((name) => process.env[name]);
  const here = import.meta.dirname;
  const args = ["--mount", "--pid", "--ipc", "--fork", "--kill-child"];
  if (container) args.push("python3", join(here, "refuse-namespaces.py"));
  args.push("bash", join(here, "enter.sh"), root, user, folder, command);
  const child = spawn("unshare", args, {
    stdio: ["ignore", stdout, "inherit"],
    env: {
      ...Object.fromEntries(passed.map((name) => [name, process.env[name]])),
      PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
      TERM: "dumb",
      USER: user,
      ...env,
      ...(container && { CONTAINER: "1" }),
    },
  });
  // Killing unshare ends all processes of the machine, which releases its files.
  const end = () => child.kill("SIGKILL");
  signal?.addEventListener("abort", end);
  const signals = ["SIGINT", "SIGTERM"];
  return new Promise((resolve, reject) => {
    const stop = (name) => {
      child.once("close", () => reject(new Error(`stopped by ${name}`)));
      end();
    };
    for (const name of signals) process.once(name, stop);
    child.once("error", reject);
    child.once("close", (status) => {
      for (const name of signals) process.off(name, stop);
      if (status !== null || signal?.aborted) resolve(status);
    });
  });
}

/** Removes machines of killed runs. */
function removeAbandoned() {
  for (const name of existsSync(cache) ? readdirSync(cache) : []) {
    const pid = /^(?:machine-|base-\w+\.)(\d+)(?:-\w+)?$/.exec(name)?.[1];
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(join(cache, name), { recursive: true, force: true });
  }
}

function onPath(command) {
  return spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
}

function run(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`\`${command}\` failed: ${stderr?.trim() || error?.message || `exit ${status}`}`);
  return stdout;
}
