// Adds to package-lock.json the optional binaries of other platforms that npm left out because the registry in use does
// not have them: `npm ci` refuses a lock file without them. Run it after changing dependencies.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const file = join(dirname(dirname(fileURLToPath(import.meta.url))), "package-lock.json");
const lock = JSON.parse(readFileSync(file, "utf8"));

for (const { name, version, owner } of missingBinaries(lock.packages)) {
  lock.packages[`node_modules/${name}`] = entry(name, version, owner);
  console.log(`added ${name} ${version}`);
}
// npm's order, to keep its next diff small.
const sorted = Object.entries(lock.packages).sort(([one], [other]) => one.localeCompare(other, "en"));
writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, undefined, 2)}\n`);

function missingBinaries(packages) {
  return Object.entries(packages).flatMap(([path, owner]) =>
    Object.entries(owner.optionalDependencies ?? {})
      .filter(([name]) => !packages[`${path}/node_modules/${name}`] && !packages[`node_modules/${name}`])
      .map(([name, version]) => ({ name, version, owner })),
  );
}

/**
 * The entry that npm would write, from the registry if it has the package. Otherwise the platform comes from the name,
 * and the checksum is missing: that platform installs the exact version, unverified.
 */
function entry(name, version, owner) {
  const known = fromRegistry(name, version) ?? { ...platform(name), license: owner.license };
  const { os, engines, ...rest } = { ...known, ...(owner.dev && { dev: true }), optional: true };
  const ordered = Object.entries(rest).sort(([one], [other]) => one.localeCompare(other, "en"));
  return { version, ...(rest.integrity && { integrity: rest.integrity }), ...Object.fromEntries(ordered), os, engines };
}

function fromRegistry(name, version) {
  const fields = ["os", "cpu", "libc", "dist.integrity", "license", "engines"];
  const { status, stdout } = spawnSync("npm", ["view", `${name}@${version}`, ...fields, "--json"], {
    encoding: "utf8",
  });
  if (status !== 0 || !stdout.trim()) return undefined;
  const { "dist.integrity": integrity, ...rest } = JSON.parse(stdout);
  return { integrity, ...rest };
}

/** `@deno/linux-arm64-glibc`, `@rolldown/binding-win32-x64-msvc`, `@biomejs/cli-linux-x64-musl`, `…-wasm32-wasi`. */
function platform(name) {
  const words = name.split("/").pop().split("-");
  if (words.includes("wasm32")) return { cpu: ["wasm32"] };
  const systems = [
    "aix",
    "android",
    "darwin",
    "freebsd",
    "linux",
    "netbsd",
    "openbsd",
    "openharmony",
    "sunos",
    "win32",
  ];
  const at = words.findIndex((word) => systems.includes(word));
  if (at < 0) throw new Error(`The name \`${name}\` contains no platform: add its entry manually.`);
  const [os, cpu, ...abi] = words.slice(at);
  const libc = os !== "linux" ? undefined : { glibc: "glibc", gnu: "glibc", musl: "musl" }[abi[0]];
  return { os: [os], cpu: [cpu], ...(libc && { libc: [libc] }) };
}
