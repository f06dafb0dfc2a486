// What the server starts outside of jails: environments and programs that callers, code or file tools could choose or
// change. A planted program leaves a mark at a path that no jail shows, so a mark means that it ran outside.
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, proves, short } from "./case.mjs";
import { environment, LIMITS, LOCAL, startLocal } from "./local-stage.mjs";
import { commandOf, descendants, startHttp, startStdio } from "./server.mjs";
import { tokens } from "./stage.mjs";
import { JAILED, tier } from "./tier.mjs";

const q = JSON.stringify;
const basePython = () => realpathSync(join(environment, "bin/python"));

/** A folder for one case, a path that means "it ran outside", and a program that creates a file there. */
function ground(stage) {
  const folder = mkdtempSync(join(stage.folder, "ground-"));
  const mark = join(mkdtempSync(join(stage.folder, "mark-")), "ran");
  const makes = (name) => {
    mkdirSync(join(folder, name), { recursive: true });
    return join(folder, name);
  };
  return { folder, mark, makes, script: `#!/bin/sh\nid > ${mark}\n`, python: `open(${q(mark)}, "w").write("ran")` };
}

function plant(folder, script) {
  mkdirSync(join(folder, "bin"), { recursive: true });
  writeFileSync(join(folder, "bin/python"), script);
  chmodSync(join(folder, "bin/python"), 0o755);
}

/** A virtual environment with the packages of the tests' Python, and an editable install of a project if one is named. */
export function makeVenv(path, ...inPlace) {
  const made = spawnSync(basePython(), ["-m", "venv", "--without-pip", path], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
  const ask = (python) =>
    spawnSync(python, ["-c", "import site; print(site.getsitepackages()[0])"], { encoding: "utf8" }).stdout.trim();
  const site = ask(join(path, "bin/python"));
  writeFileSync(join(site, "here.pth"), [...inPlace, ask(join(environment, "bin/python")), ""].join("\n"));
  return { path, site };
}

const local =
  (args, env = {}) =>
  (given) =>
    startStdio({ args: [...args, ...LIMITS], env: { ...given, ...env }, kernel: ["--kernel", "local"] });

/** Runs a cell in a separate session, which is closed afterwards. */
async function once(server, code, more = {}) {
  const reply = await server.admin.run(code, { timeout_s: 60, ...more });
  if (reply.session) await server.admin.call("close_session", { session_id: reply.session, delete_files: true });
  return reply;
}

const shell = (server, code, more = {}) => once(server, code, { language: "bash", ...more });

const plantByShell = (script) =>
  `mkdir -p x/bin && printf %s ${q(script).replaceAll("$", "\\$")} | sed 's/\\\\n/\\n/g' > x/bin/python && chmod +x x/bin/python && echo planted`;

/** Paths by which the files of a session's jail can be reached from outside. */
const doors = (server, within) =>
  descendants(server.pid).flatMap((pid) => [
    `/proc/${pid}/cwd/x`,
    ...within.map((path) => `/proc/${pid}/root${path}/x`),
  ]);

const openDoor = (server, within) => doors(server, within).find((path) => existsSync(join(path, "bin/python")));

function s1({ kernel, start, plantIn, within }) {
  const planted = async (stage) => {
    const place = ground(stage);
    const server = await stage.ownServer(start);
    const { reply } = await stage.session(server, ...plantIn(place));
    proves(reply.text.includes("planted"), `nothing could be planted: ${short(reply.text)}`);
    return { place, server };
  };
  return {
    id: "S1",
    class: "S5",
    kernel,
    what: "an environment by a path of /proc that leads into a session's jail",
    needs: (stage) => stage.jailObstacle,
    async probe(stage) {
      const { place, server } = await planted(stage);
      const door = openDoor(server, within);
      proves(door, "no path of /proc leads to what was planted");
      for (const env of doors(server, within)) {
        const reply = await once(server, "1", { env });
        expect(reply.isError && reply.text.includes("/proc"), `${env}: ${short(reply.text)}`);
      }
      expect(!existsSync(place.mark), "what a session planted ran outside of its jail");
      return `refused by ${door}`;
    },
    async control(stage) {
      const { place, server } = await planted(stage);
      const door = openDoor(server, within);
      spawnSync(join(door, "bin/python"));
      proves(existsSync(place.mark), "starting it by that path does nothing");
      return "started by that path it runs outside";
    },
  };
}

const s1Bash = s1({
  kernel: "bash",
  start: (env) => startLocal({ args: [...JAILED, ...LIMITS], env }),
  within: ["/workspace"],
  plantIn: ({ script }) => [plantByShell(script), { language: "bash" }],
});

export const s1Wasm = s1({
  kernel: "wasm",
  start: (env) => startStdio({ args: LIMITS, env, kernel: ["--kernel", "auto"] }),
  within: ["/cell/files"],
  plantIn: ({ script }) => [
    `import os\nos.makedirs("x/bin")\nopen("x/bin/python", "w").write(${q(script)})\nos.chmod("x/bin/python", 0o755)\nprint("planted")`,
  ],
});

const s2 = {
  id: "S2",
  class: "S5",
  kernel: "local",
  what: "an environment of another user's, named by its path over HTTP",
  async probe(stage) {
    for (const more of [[], ["--allow-env-paths"]]) {
      const { server, place, evil } = await this.serve(stage, more);
      const reply = await once(server, "1", { env: evil });
      expect(reply.isError, short(reply.text));
      expect(more.length > 0 || reply.text.includes("--allow-env-paths"), short(reply.text));
      expect(!existsSync(place.mark), "the other user's program ran with the server's rights");
    }
  },
  async control(stage) {
    const { server, place, evil } = await this.serve(stage, ["--allow-env-paths", "--jail", "none"]);
    await once(server, "1", { env: evil });
    proves(existsSync(place.mark), "it is not even asked without a jail");
    return "without a jail it is asked outside";
  },
  async serve(stage, more) {
    const place = ground(stage);
    const evil = place.makes("evil");
    plant(evil, place.script);
    writeFileSync(join(evil, "pyvenv.cfg"), "home = /usr/bin\n");
    if (process.getuid() === 0) chownSync(join(evil, "bin/python"), 4242, 4242);
    const args = [...LOCAL, ...LIMITS, "--auth-token", `alice=${tokens.alice}`, ...more];
    return { place, evil, server: await stage.ownServer((env) => startHttp({ args, env })) };
  },
};

/** Plants, then starts a session; `restarts`: with the next server. The control does the same without jails. */
function plantThenStart({ id, kernel = "local", what, prepare, plantIn, use, restarts = false }) {
  const attack = async (stage, jail) => {
    const place = ground(stage);
    const { args, env } = prepare(place);
    const start = local(["--jail", jail, ...args], env);
    const first = await stage.ownServer(start);
    const said = await plantIn(first, place, jail);
    await use(restarts ? await stage.ownServer(start) : first, place);
    return { place, said };
  };
  return {
    id,
    class: "S5",
    kernel,
    what,
    async probe(stage) {
      const { place, said } = await attack(stage, tier);
      expect(!existsSync(place.mark), `what code planted ran outside: ${short(said)}`);
      return short(said);
    },
    async control(stage) {
      const { place, said } = await attack(stage, "none");
      proves(existsSync(place.mark), `nothing ran without a jail either: ${short(said)}`);
      return "without a jail it runs";
    },
  };
}

const s4 = plantThenStart({
  id: "S4",
  kernel: "bash",
  what: "a shell of an unknown environment, or of none, changes the one of others in the workspace",
  prepare({ makes }) {
    const workspace = makes("project");
    makeVenv(join(workspace, "myenv"));
    return { args: ["--workspace", workspace, "--env", join(workspace, "myenv")] };
  },
  async plantIn(server, { python }, jail) {
    const write = `echo 'import os; ${python}' > "$(echo myenv/lib/python*/site-packages)/e.pth" && echo planted`;
    const unknown = await shell(server, write, { env: "nope" });
    expect(jail === "none" || unknown.isError, `a shell of no known environment was started: ${short(unknown.text)}`);
    const moving = jail === "none" ? "" : "mv myenv away && echo moved; ";
    const reply = await shell(server, moving + write);
    expect(jail === "none" || !/planted|moved/.test(reply.text), `it could be changed: ${short(reply.text)}`);
    return reply.text;
  },
  restarts: true,
  use: (server) => once(server, "1"),
});

const s5a = plantThenStart({
  id: "S5a",
  what: "a module in a project that is installed in place, which the packages of the environment look for",
  prepare({ makes, folder }) {
    const workspace = makes("project");
    mkdirSync(join(workspace, "src"));
    makeVenv(join(folder, "env"), join(workspace, "src"));
    return { args: ["--workspace", workspace, "--env", join(folder, "env")] };
  },
  async plantIn(server, { python }) {
    const reply = await shell(server, `echo '__version__ = "9"; ${python}' > src/bottleneck.py && echo planted`);
    proves(reply.text.includes("planted"), `the project cannot be worked on: ${short(reply.text)}`);
    return reply.text;
  },
  restarts: true,
  use: (server) => once(server, "import pandas\npandas.__version__"),
});

const s5b = {
  id: "S5b",
  class: "S5",
  kernel: "local",
  what: "the user's own packages and their .pth files in a zygote",
  async probe(stage) {
    const server = await stage.server("auto");
    const { text } = await once(
      server,
      "import sys, site\nprint(sys.flags.isolated, sys.flags.no_user_site, site.ENABLE_USER_SITE)",
    );
    expect(/1 1 (False|None)/.test(text), short(text));
    const lines = descendants(server.pid).map(commandOf);
    const zygote = lines.find((words) => words.some((word) => word.endsWith("zygote.py")));
    expect(zygote?.includes("-I"), `the zygote is not isolated: ${zygote}`);
  },
  async control() {
    const env = { PATH: "/usr/bin:/bin", LANG: "C.UTF-8" };
    const ask = "import site; print(site.ENABLE_USER_SITE)";
    const said = spawnSync(basePython(), ["-c", ask], { env, encoding: "utf8" }).stdout;
    proves(said.includes("True"), short(said));
    return "a Python started without -I has them on";
  },
};

const s6 = plantThenStart({
  id: "S6",
  what: "export_file puts a module into an environment in --files-dir, which a caller then names",
  prepare(place) {
    const project = place.makes("project");
    place.site = makeVenv(join(project, ".venv")).site;
    place.venv = join(project, ".venv");
    return { args: ["--files-dir", project, "--env", environment] };
  },
  async plantIn(server, { python, site }, jail) {
    const reply = await server.admin.run(`open("evil.py", "w").write(${q(`import os\n${python}\n`)})`);
    const exported = await server.admin.call("export_file", {
      session_id: reply.session,
      path: "evil.py",
      host_path: join(site, "sitecustomize/__init__.py"),
    });
    await server.admin.call("close_session", { session_id: reply.session, delete_files: true });
    // As version 0.1.0 did, whatever the tools refuse now.
    if (jail === "none" && exported.isError) {
      mkdirSync(join(site, "sitecustomize"), { recursive: true });
      writeFileSync(join(site, "sitecustomize/__init__.py"), `import os\n${python}\n`);
    }
    return exported.text;
  },
  use: (server, { venv }) => once(server, "1", { env: venv }),
});

const s9 = plantThenStart({
  id: "S9",
  what: "code makes the folder of named environments that was not there yet",
  prepare(place) {
    const open = place.makes("open");
    place.envs = join(open, "envs");
    return { args: ["--allow-write", open, "--env-root", place.envs, "--env", environment] };
  },
  async plantIn(server, { envs, script }, jail) {
    const code = `import os\nos.makedirs(${q(join(envs, "evil/bin"))})\nopen(${q(join(envs, "evil/bin/python"))}, "w").write(${q(script)})\nos.chmod(${q(join(envs, "evil/bin/python"))}, 0o755)\nprint("planted")`;
    const reply = await once(server, code);
    expect(jail === "none" || !reply.text.includes("planted\n"), short(reply.text));
    return reply.text;
  },
  restarts: true,
  use: (server) => once(server, "1", { env: "evil" }),
});

const p5 = plantThenStart({
  id: "P5",
  what: "a program in a folder of the workspace that is on the server's PATH",
  prepare(place) {
    const workspace = place.makes("project");
    place.bin = join(workspace, "node_modules/.bin");
    const PATH = `${place.bin}:${process.env.PATH}`;
    return { args: ["--workspace", workspace, "--env", environment], env: { PATH } };
  },
  async plantIn(server, { bin, script }) {
    const names = ["mamba", "conda", "uv", "pip", "python3", "pixi"];
    const each = names.map(
      (name) => `open(${q(bin)} + "/${name}", "w").write(script)\nos.chmod(${q(bin)} + "/${name}", 0o755)`,
    );
    const reply = await once(
      server,
      `import os\nos.makedirs(${q(bin)}, exist_ok=True)\nscript = ${q(script)}\n${each.join("\n")}\nprint("planted")`,
    );
    proves(reply.text.includes("planted"), short(reply.text));
    return reply.text;
  },
  async use(server) {
    await server.admin.call("list_environments");
    await once(server, "1", { env: "no-such-name" });
  },
});

export default [s1Bash, s2, s4, s5a, s5b, s6, s9, p5];
