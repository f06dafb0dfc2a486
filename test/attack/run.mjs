// Runs the abuse cases against the built program:
//   node test/attack/run.mjs [--short] [--walls] [--only ID[,ID…]] [--kernel wasm|local|bash[,…]]
//     [--tier namespaces|landlock] [--launcher bubblewrap|python] [--user]
// Both tiers of isolation unless one is named, one after the other, for all kernels; with --user as an ordinary user.
// With --walls only what must hold however busy the machine is; bombs and floods are measured in seconds and megabytes.
// Each case has a probe, which Cellwright must withstand, and a control: the same without protection, which must succeed.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Failure, Invalid, NeedsRoot, short } from "./case.mjs";
import { runAsUser } from "./ordinary-user.mjs";
import { printReport } from "./report.mjs";
import { TIERS, tier, triedTier } from "./tier.mjs";

const args = process.argv.slice(2);
const only = option("--only")?.split(",");
const kernels = option("--kernel")?.split(",") ?? ["wasm", "local", "bash"];
const wantedLauncher = option("--launcher");
const isShort = args.includes("--short");
const classes = args.includes("--walls") ? ["S5", "I4"] : undefined;
/** A case that hangs has failed; the slowest take half a minute. */
const CASE_LIMIT_MS = 150_000;

if (process.platform !== "linux") {
  console.log("The attack runs on Linux only: it looks below /proc and makes namespaces.");
  process.exit(process.env.CELLWRIGHT_REQUIRE === "all" ? 1 : 0);
}
if (process.env.CELLWRIGHT_ATTACK_INSIDE === undefined) {
  if (args.includes("--user") && process.getuid?.() === 0) process.exit(runAsUser(args));
  const wanted = option("--tier")?.split(",") ?? TIERS;
  process.exit(Math.max(...wanted.map((tier) => runInside(tier))));
}
// A listener ends the servers that do not notice the end of this process.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => process.exit(130));
// An unhandled rejection of a failed case must not end the others.
process.on("unhandledRejection", (error) => {
  process.stderr.write(`unhandled rejection: ${error instanceof Error ? error.stack : error}\n`);
});

const { Stage } = await import("./stage.mjs");
const { prepareFirstStart } = await import("./server.mjs");
const { localRecipes, whyNoLocal } = await import("./local-stage.mjs");
/**
 * Concurrent lanes of about the same length: much of a case is waiting. Everything that uses the network is in the first
 * one, so that packets can be counted there.
 */
const wasm = {
  lanes: [
    ["escape", "reach", "protocol", "http", "audit-net"],
    ["bombs"],
    ["floods", "hostile", "files", "audit-workspace", "audit-env-wasm"],
  ],
};
const local = {
  recipes: localRecipes,
  lanes: [
    ["escape", "surface", "network", "traces", "files", "audit-net"],
    ["bombs"],
    ["disk", "floods"],
    ["journal", "forgery", "life", "audit-workspace", "audit-leaks"],
    ["audit-jail"],
  ]
    .map((names) => names.map((name) => `local-${name}`))
    .concat([["audit-env"], ["audit-load"]]),
};
const tried = await triedTier();
const jailObstacle =
  tried.obstacle ??
  (wantedLauncher && tried.launcher.kind !== wantedLauncher
    ? `it would be built by ${tried.launcher.kind}`
    : undefined);
const localObstacle = jailObstacle ?? whyNoLocal();
const privateNetwork = process.env.CELLWRIGHT_ATTACK_INSIDE === "private";
const begin = performance.now();
const results = [];
if (kernels.includes("wasm")) {
  prepareFirstStart();
  results.push(...(await runLanes(wasm)));
}
if (kernels.some((kernel) => kernel !== "wasm")) results.push(...(await runLanes(local)));
const inOrder = results.sort((one, other) => order(one) - order(other));
const seconds = (performance.now() - begin) / 1000;
const passed = printReport(inOrder, {
  seconds,
  tier,
  launcher: tried.launcher?.kind,
  jailObstacle,
  localObstacle,
  privateNetwork,
});
process.exit(passed ? 0 : 1);

/** @param {{ lanes: string[][], recipes?: object }} of */
async function runLanes({ lanes, recipes }) {
  const loaded = await Promise.all(lanes.map(async (files) => (await all(files)).filter(isWanted)));
  const runs = loaded.map((cases, index) => {
    const own = cases.filter(({ alone }) => !alone);
    return runLane(own, { recipes, hasNetwork: index === 0 });
  });
  const results = (await Promise.all(runs)).flat();
  // Time measurements wait until the lanes are empty.
  const alone = loaded.flat().filter(({ alone }) => alone);
  return [...results, ...(await runLane(alone, { recipes, hasNetwork: true }))];
}

async function all(files) {
  const modules = await Promise.all(files.map((name) => import(`./${name}.mjs`)));
  return modules.flatMap((module) => module.default);
}

function isWanted(one) {
  const { id, kernel = "wasm" } = one;
  return (!only || only.includes(id)) && kernels.includes(kernel) && (!classes || classes.includes(one.class));
}

async function runLane(cases, { recipes, hasNetwork }) {
  if (cases.length === 0) return [];
  const stage = new Stage({ short: isShort, privateNetwork: privateNetwork && hasNetwork, jailObstacle, recipes });
  await stage.open();
  const results = [];
  for (const one of cases) {
    const result = await runCase(one, stage);
    results.push(result);
    process.stderr.write(`${result.id} ${result.kernel} ${result.outcome} ${result.seconds.toFixed(1)} s\n`);
  }
  await stage.close();
  return results;
}

async function runCase(one, stage) {
  const started = performance.now();
  const { kernel = "wasm" } = one;
  const result = { id: one.id, kernel, class: one.class, what: one.what, control: "", detail: "" };
  if (one.notApplicable) return { ...result, outcome: "n/a", detail: one.notApplicable, seconds: 0 };
  const missing = (kernel === "wasm" ? undefined : localObstacle) ?? one.needs?.(stage);
  if (missing) {
    const outcome = process.env.CELLWRIGHT_REQUIRE === "all" ? "FAILED" : "n/a";
    return { ...result, outcome, detail: missing, seconds: 0 };
  }
  const problems = [];
  try {
    result.detail = short((await inTime(one.probe(stage))) ?? "");
  } catch (error) {
    problems.push(error);
  }
  result.open = stage.takeNotes();
  problems.push(...(await inTime(stage.endCase()).catch((error) => [error])));
  try {
    result.control = short((await inTime(one.control(stage))) ?? "yes", 60);
    await stage.endCase();
  } catch (error) {
    await stage.endCase();
    result.hurt = problems.some(({ hurt }) => hurt);
    if (error instanceof NeedsRoot && problems.length === 0) return finish("n/a", `withstood; ${error.message}`);
    const why = error instanceof Invalid ? error.message : (error.stack ?? error.message);
    // An invalid control is no excuse: the probe's result is reported as well.
    return finish("invalid", [`the control did not succeed: ${short(why, 300)}`, ...problems.map(told)].join("; "));
  }
  if (problems.some((error) => error instanceof Invalid)) return finish("invalid", problems.map(told).join("; "));
  if (problems.length === 0) return finish("passed", result.detail);
  result.hurt = problems.some((error) => error.hurt || !(error instanceof Failure));
  return finish("FAILED", problems.map(told).join("; "));

  function finish(outcome, detail) {
    return { ...result, outcome, detail, seconds: (performance.now() - started) / 1000 };
  }
}

function told(error) {
  return error instanceof Failure || error instanceof Invalid ? error.message : short(error.stack, 300);
}

/** By kernel, then by group, then by number. */
function order({ id, kernel }) {
  return ["wasm", "local", "bash"].indexOf(kernel) * 1e6 + id.charCodeAt(0) * 1_000 + Number.parseInt(id.slice(1), 10);
}

async function inTime(work) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failure(`not over after ${CASE_LIMIT_MS / 1000} s`)), CASE_LIMIT_MS);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Re-runs this in its own namespaces, if allowed: all addresses that an attack names are then on a private loopback
 * device, so that nothing leaves the machine even if a protection is missing, and small disks can be mounted.
 */
function runInside(tier) {
  const nameservers = readFileSync("/etc/resolv.conf", "utf8").match(/^nameserver\s+\S+/gm) ?? [];
  const addresses = [
    "169.254.169.254",
    "10.0.0.1",
    "192.168.0.1",
    "fd00:ec2::254",
    "fe80::1",
    ...nameservers.map((line) => line.split(/\s+/)[1]),
  ];
  const lowPorts = "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || true";
  const commands = [
    "ip link set lo up",
    lowPorts,
    ...addresses.map((address) => `ip addr add ${address} dev lo || true`),
  ];
  // A program that is no program any more is not found.
  if (wantedLauncher === "python") commands.push('mount --bind /dev/null "$(command -v bwrap)" || true');
  const script = `${commands.join("\n")} 2>/dev/null\nexec "$@"`;
  const isRoot = process.getuid?.() === 0;
  const own = isRoot ? [] : ["--user", "--map-root-user"];
  const namespaces = [...own, "--net", "--mount", "--propagation", "private"];
  const works = spawnSync("unshare", [...namespaces, "sh", "-c", "ip link set lo up"]).status === 0;
  // Back to the rights of an ordinary user, once the network is set up.
  const ids = [`--map-user=${process.getuid?.()}`, `--map-group=${process.getgid?.()}`];
  const again = works && !isRoot ? ["unshare", "--user", ...ids] : [];
  const command = [...again, process.execPath, fileURLToPath(import.meta.url), ...args];
  const [program, ...rest] = works ? ["unshare", ...namespaces, "sh", "-c", script, "sh", ...command] : command;
  const env = { ...process.env, CELLWRIGHT_ATTACK_INSIDE: works ? "private" : "shared", CELLWRIGHT_ATTACK_TIER: tier };
  return spawnSync(program, rest, { stdio: "inherit", env }).status ?? 1;
}

function option(name) {
  return args.includes(name) ? args[args.indexOf(name) + 1] : undefined;
}
