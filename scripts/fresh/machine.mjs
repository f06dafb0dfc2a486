// A minimal Debian with Node, npm, git and Python and nothing else: what somebody has who clones the project for the
// first time. It shares the network and the kernel of the machine it runs on, and none of its files.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
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
const PACKAGES = ["ca-certificates", "git", "procps", "python3", "python3-venv"];
/** The user who may do nothing but what every user may. */
export const ORDINARY_USER = "someone";

/** How package sources are reached from here: whatever of these there is. It is copied and never shown. */
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

/** Whether a suite that would be skipped fails. As an ordinary user some have to be: what they need only root installs. */
const strictness = (user) => (user === "root" ? ["CELLWRIGHT_REQUIRE"] : []);

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cellwright-fresh");

/** Why there can be no such machine here, or undefined. */
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
  removeAbandoned();
  const root = join(cache, `machine-${process.pid}`);
  rmSync(root, { recursive: true, force: true });
  run("cp", ["-a", "--reflink=auto", makeBase(), root]);
  const home = user === "root" ? "/root" : `/home/${user}`;
  const folder = `${home}/cellwright`;
  installNode(root);
  copyClientSettings(root, home);
  const head = run("git", ["-C", repository, "rev-parse", "HEAD"]).trim();
  run("git", ["clone", "--quiet", repository, join(root, folder)]);
  run("git", ["-C", join(root, folder), "checkout", "--quiet", "--detach", head]);
  run("chroot", [root, "chown", "-R", `${user}:`, home]);
  chmodSync(join(root, home), 0o700);
  return {
    /** Resolves with the command's exit status. It gets no terminal and no input. */
    run: (command, { container = false } = {}) => enter({ root, user, home, folder, command, container }),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** Made once for each list of packages, and only ever copied. */
function makeBase() {
  const recipe = createHash("sha256")
    .update(JSON.stringify([RELEASE, PACKAGES]))
    .digest("hex")
    .slice(0, 12);
  const base = join(cache, `base-${recipe}`);
  if (existsSync(base)) return base;
  console.log("fresh: making a minimal Debian, once");
  const growing = `${base}.${process.pid}`;
  const log = `${base}.log`;
  rmSync(growing, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const args = ["--variant=minbase", `--include=${PACKAGES.join(",")}`, RELEASE, growing, ...debianMirror()];
  const made = spawnSync("debootstrap", args, { encoding: "utf8" });
  if (made.status !== 0) {
    writeFileSync(log, `${made.stdout}${made.stderr}`);
    throw new Error(`debootstrap failed; what it said is in ${log}`);
  }
  run("chroot", [growing, "useradd", "--create-home", "--shell", "/bin/bash", ORDINARY_USER]);
  renameSync(growing, base);
  return base;
}

/** Where this machine gets Debian's packages from, if that is said in the usual place. */
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

function copyClientSettings(root, home) {
  for (const folder of clientFolders.filter(existsSync)) run("cp", ["-a", `${folder}/.`, join(root, folder)]);
  const certificates = certificateVariables.map((name) => process.env[name]).filter(Boolean);
  for (const file of [...clientFiles, ...certificates].filter(existsSync)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    cpSync(file, join(root, file), { dereference: true });
  }
  const own = join(homedir(), ".npmrc");
  if (existsSync(own)) copyFileSync(own, join(root, home, ".npmrc"));
}

function enter({ root, user, home, folder, command, container }) {
  const sources = [...sourceVariables, ...sourceVariables.map((name) => name.toLowerCase())];
  const passed = [...certificateVariables, ...sources, ...strictness(user)];
  const env = {
    ...Object.fromEntries(passed.filter((name) => process.env[name]).map((name) => [name, process.env[name]])),
    HOME: home,
    USER: user,
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    LANG: "C.UTF-8",
    TERM: "dumb",
    CI: "true",
  };
  const here = import.meta.dirname;
  copyFileSync(join(here, "refuse-namespaces.py"), join(root, "usr/local/lib/refuse-namespaces.py"));
  const args = ["--mount", "--pid", "--ipc", "--fork", "--kill-child", "bash", join(here, "enter.sh")];
  const child = spawn("unshare", [...args, root, user, folder, command], {
    stdio: ["ignore", "inherit", "inherit"],
    env: container ? { ...env, CONTAINER: "1" } : env,
  });
  const signals = ["SIGINT", "SIGTERM"];
  return new Promise((resolve, reject) => {
    // With unshare all that runs in the machine ends, and nothing holds its files any more.
    const stop = (signal) => {
      child.once("close", () => reject(new Error(`stopped by ${signal}`)));
      child.kill("SIGKILL");
    };
    for (const signal of signals) process.once(signal, stop);
    child.once("error", reject);
    child.once("close", (status) => {
      for (const signal of signals) process.off(signal, stop);
      if (status !== null) resolve(status);
    });
  });
}

/** Machines of runs that were killed. */
function removeAbandoned() {
  for (const name of existsSync(cache) ? readdirSync(cache) : []) {
    const pid = /^(?:machine-|base-\w+\.)(\d+)$/.exec(name)?.[1];
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
