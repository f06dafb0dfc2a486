// Servers with kernels that are local processes, and sessions that run Python or bash in them.
import { existsSync, readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { pythonText } from "./case.mjs";
import { startStdio } from "./server.mjs";
import { JAILED } from "./tier.mjs";

/** As test/support/pythons.ts has it. */
const python =
  process.env.CELLWRIGHT_TEST_PYTHON ?? fileURLToPath(new URL("../../.cache/test-env/bin/python", import.meta.url));
/** The folder of the environment, in which attacks search for something to change. */
export const environment = python.replace(/\/bin\/[^/]+$/, "");
export const LOCAL = ["--kernel", "local", "--env", environment];

/** Low limits, so that exceeding them takes little time and memory. */
export const MEMORY_MB = 256;
export const DISK_MB = 64;
export const PIDS = 64;
export const LIMITS = [
  ...["--memory-mb", String(MEMORY_MB), "--disk-mb", String(DISK_MB), "--pids", String(PIDS)],
  ...["--warm", "0"],
];

export const localRecipes = {
  auto: (env) => startLocal({ args: [...JAILED, ...LIMITS], env }),
  none: (env) => startLocal({ args: ["--jail", "none", ...LIMITS], env }),
};

export function startLocal({ args = [], ...more }) {
  return startStdio({ ...more, args, kernel: LOCAL });
}

export function whyNoLocal() {
  return existsSync(python) ? undefined : `there is no ${python}; \`node scripts/setup.mjs test\` makes it`;
}

/**
 * A server that has worked has a larger heap than a new one, which is not the effect of a case. For cases that produce
 * enough garbage for this to matter.
 */
export async function usedServer(stage) {
  const server = await stage.server("auto");
  server.used ??= (async () => {
    for (let turn = 0; turn < 60; turn += 1)
      await server.admin.run("print('x' * 300_000)", { session_id: server.neighbour });
    await stage.endCase();
  })();
  await server.used;
  return stage.server("auto");
}

/** How much longer things may take on a busy machine. */
export function patience() {
  return Math.min(10, Math.max(1, loadavg()[0] / cpus().length));
}

export const languages = ["python", "bash"];

/** One case per language, named after the attacked kernel. */
export function forBoth(make) {
  return languages.map((language) => ({ ...make(language), kernel: language === "python" ? "local" : "bash" }));
}

export function forPython(one) {
  return [{ ...one, kernel: "local" }];
}

/** A session whose cells are in one language; closed when the case is over. */
export async function sessionIn(stage, server, language, first = language === "python" ? "0" : ":") {
  return speaking(await stage.session(server, first, { language }), language);
}

/** Escape cases share a Python session: whatever one of them breaks stays broken for the next. */
export async function attackerIn(stage, server, language) {
  return language === "python" ? speaking(await stage.attacker(server), language) : sessionIn(stage, server, language);
}

function speaking(session, language) {
  return { ...session, language, run: (code, more, options) => session.run(code, { language, ...more }, options) };
}

const helpers = readFileSync(new URL("./local-probe.py", import.meta.url), "utf8");

/** A cell that runs Python, in the kernel itself or in a program that the shell starts. */
export function inPython(language, code) {
  const whole = `${helpers}\n${code}\n`;
  return language === "python" ? whole : `python3 - <<'END_OF_PROBE'\n${whole}\nEND_OF_PROBE\n`;
}

/** A cell that runs bash, in the shell itself or in a program that Python starts. */
export function inShell(language, code) {
  if (language === "bash") return code;
  return `import subprocess\ndone = subprocess.run(["bash", "-c", ${pythonText(code)}], capture_output=True, text=True)\nprint(done.stdout, done.stderr)`;
}

/** Runs many probes in one cell; returns the result of each, by name. */
export async function tryAll(session, ways) {
  const source = inPython(session.language, `battery(json.loads(${pythonText(JSON.stringify(ways))}))`);
  const reply = await session.run(source, { timeout_s: 60 });
  const told = Object.fromEntries(
    [...reply.text.matchAll(/^\[(.*?)\] (.*)$/gm)]
      .filter(([, name]) => name in ways)
      .map(([, name, text]) => [name, text]),
  );
  return { told, isComplete: reply.text.includes("[end]"), reply };
}
