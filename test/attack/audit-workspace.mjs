// What programs outside the sandbox obey, in the user's own folders: file tools, and code in WASM.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, lstatSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, proves } from "./case.mjs";
import { startStdio } from "./server.mjs";
import {
  filesDir,
  isObeyed,
  makeProject,
  makeVenv,
  markerIn,
  plant,
  silentNames,
  startupLine,
  waysDone,
} from "./workspaces.mjs";

const q = JSON.stringify;
const serve = (stage, ...args) =>
  stage.ownServer((env) =>
    startStdio({ args: ["--warm", "0", ...args], env: { ...env, CELLWRIGHT_LOG_LEVEL: "warn" } }),
  );

/** Code in a workspace with and without a repository; with `lift`, names that the operator has exempted. */
export async function attackByCode(stage, { serverIn, run, lift = [] }) {
  const done = [];
  for (const repository of [true, false]) {
    const folder = makeProject(stage, { repository });
    const server = await serverIn(
      folder,
      lift.flatMap((name) => ["--allow-write", name]),
    );
    const marker = markerIn(stage);
    const ways = waysDone(await run(server, plant(marker)));
    done.push({ folder, ways, ran: isObeyed(folder, marker) });
    await server.stop();
    stage.forget(server);
    done.at(-1).left = silentNames.filter(
      (name) => name.startsWith(".") && existsSync(join(folder, name.split(" ")[0])),
    );
  }
  return done;
}

export function withstood(done) {
  for (const { folder, ways, ran, left } of done) {
    expect(!ran, `a program outside ran what code had planted in ${folder}: ${ways.join(", ")}`);
    expect(ways.length === 0, `code wrote what hosts obey: ${ways.join(", ")}`);
    expect(left.length === 0, `left in the user's folder: ${left.join(", ")}`);
  }
  return "all ways refused, with a repository and without";
}

export function gotThrough(done) {
  for (const { ways, ran } of done) proves(ran, `nothing ran, although ${ways.join(", ")} was allowed`);
  return "git status ran it";
}

const s7 = {
  id: "S7",
  class: "S5",
  what: "code in WASM makes `git` outside run something: config, hooks, renames, a planted repository",
  async probe(stage) {
    const all = [];
    for (const wall of stage.walls) all.push(...(await attackByCode(stage, wasm(stage, wall))));
    return withstood(all);
  },
  async control(stage) {
    return gotThrough(await attackByCode(stage, { ...wasm(stage), lift: [".git", "HEAD"] }));
  },
};

const wasm = (stage, wall = "auto") => ({
  serverIn: (folder, more) => serve(stage, "--jail", wall, "--workspace", folder, ...more),
  run: (server, code) => server.run(code, { timeout_s: 60 }),
});

/** The same with file tools, which need no kernel. */
const s7Files = {
  id: "S7",
  class: "S5",
  what: "file tools write what hosts obey: by name, by spelling, by a link, by import, by removing it first",
  async probe(stage) {
    const folder = makeProject(stage);
    const files = filesDir(stage);
    const marker = markerIn(stage);
    writeFileSync(join(files, "evil"), configOf(marker));
    symlinkSync(".git", join(folder, "g"));
    symlinkSync(".vscode", join(folder, "v"));
    const server = await serve(stage, "--workspace", folder, "--files-dir", files);
    const session = await stage.session(server);
    const refused = await tryTools(session, configOf(marker), { links: true });
    expect(refused.got.length === 0, `not refused: ${refused.got.join(", ")}`);
    expect(!isObeyed(folder, marker), "git ran what file tools had written");
    expect(lstatSync(join(folder, ".git/config")).isFile(), "the repository's settings are gone");
    const read = await session.call("read_file", { path: ".git/config" });
    expect(read.text.includes("user"), "reading was refused as well");
    return `${refused.tried} calls refused`;
  },
  async control(stage) {
    const folder = makeProject(stage);
    const marker = markerIn(stage);
    const server = await serve(stage, "--workspace", folder, "--allow-write", ".git");
    const session = await stage.session(server);
    await session.call("write_file", { path: ".git/config", content: configOf(marker) });
    proves(isObeyed(folder, marker), "git does not obey what was written");
    return "with --allow-write=.git the same call works";
  },
};

const configOf = (marker) => `[core]\n\tfsmonitor = "touch ${marker}; false"\n`;

async function tryTools(session, content, { links = false } = {}) {
  const paths = [
    ...[".git/config", ".git/hooks/pre-commit", "./.git//config", ".git/commondir", ".git/config.worktree"],
    ...[".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".envrc", ".npmrc", ".gitmodules", ".Envrc"],
    ...(links ? ["g/config", "g/hooks/x", "v/tasks.json"] : []),
  ];
  /** @type {any[][]} names and arguments of tools */
  const calls = [
    ...paths.map((path) => ["write_file", { path, content }]),
    ...["user", "[core]"].map((old_text) => ["edit_file", { path: ".git/config", old_text, new_text: content }]),
    ...[".git/config", "imported/../.git/config"].map((path) => [
      "import_file",
      { host_path: "evil", path, overwrite: true },
    ]),
    ...[".git", ".git/config", ".git/hooks"].map((path) => ["delete_file", { path }]),
  ];
  const got = [];
  for (const [name, args] of calls) {
    const reply = await session.call(name, args);
    if (!reply.isError) got.push(`${name} ${args.path}`);
  }
  return { got, tried: calls.length };
}

const s3 = {
  id: "S3",
  class: "S5",
  what: "file tools plant a `.pth` in the project's environment, which also runs outside",
  async probe(stage) {
    const folder = makeProject(stage);
    const files = filesDir(stage);
    const { run, site } = makeVenv(folder);
    const marker = markerIn(stage);
    writeFileSync(join(files, "evil.pth"), startupLine(marker));
    symlinkSync(".venv", join(folder, "other"));
    const server = await serve(stage, "--workspace", folder, "--files-dir", files);
    const session = await stage.session(server);
    const content = startupLine(marker);
    const byLink = site.replace(".venv", "other");
    /** @type {any[][]} names and arguments of tools */
    const calls = [
      ["write_file", { path: `${site}/e.pth`, content }],
      ["write_file", { path: `${byLink}/e.pth`, content }],
      ["write_file", { path: `${site}/sitecustomize.py`, content }],
      ["write_file", { path: ".venv/bin/python", content: "#!/bin/sh\n" }],
      ["write_file", { path: ".venv/pyvenv.cfg", content: "home = /tmp\n" }],
      ["edit_file", { path: ".venv/pyvenv.cfg", old_text: "home", new_text: "elsewhere" }],
      ["import_file", { host_path: "evil.pth", path: `${site}/e.pth` }],
      ["delete_file", { path: ".venv" }],
      ["delete_file", { path: site }],
    ];
    const got = [];
    for (const [name, args] of calls) if (!(await session.call(name, args)).isError) got.push(`${name} ${args.path}`);
    expect(got.length === 0, `not refused: ${got.join(", ")}`);
    const code = `
import os
def put(path, text):
    with open(path, "w") as file: file.write(text)
def swap():
    os.makedirs("evil", exist_ok=True)
    os.rename(".venv", "old"); os.rename("evil", ".venv")
for way in (lambda: put(${q(`${site}/c.pth`)}, ${q(content)}), lambda: put(${q(`${byLink}/c.pth`)}, ${q(content)}), swap):
    try: way(); print("GOT")
    except OSError: pass`;
    for (const wall of stage.walls) {
      const reply = await runIn(stage, folder, { wall, code });
      const isExpected = wall === "none" ? reply.text.includes("is a symbolic link") : reply.status === "ok";
      expect(isExpected && !reply.text.includes("GOT"), `code wrote into the environment: ${reply.text}`);
      expect(existsSync(join(folder, "other")), "a link in the user's folder was removed");
    }
    run();
    expect(!existsSync(marker), "the environment ran what was planted");
    return `${calls.length} calls refused`;
  },
  async control(stage) {
    const folder = makeProject(stage);
    const server = await serve(stage, "--workspace", folder);
    const session = await stage.session(server);
    // An environment that did not exist at the start is not vouched for.
    const { run, site } = makeVenv(folder);
    const marker = markerIn(stage);
    await session.call("write_file", { path: `${site}/e.pth`, content: startupLine(marker) });
    run();
    proves(existsSync(marker), "a .pth in an environment does nothing");
    return "a .pth in an unprotected one runs";
  },
};

/** Without an OS sandbox a folder with links, which an environment has, is refused: no neighbour starts there either. */
async function runIn(stage, folder, { wall, code }) {
  const args = ["--jail", wall, "--workspace", folder];
  if (wall !== "none") return (await stage.session(await serve(stage, ...args), code)).reply;
  const server = await startStdio({ args: ["--warm", "0", ...args] });
  stage.after(() => server.stop());
  return server.run(code);
}

/** Names of files that are run once they exist in the user's folder, and one that only looks similar. */
const exported = [
  ...["sitecustomize/__init__.py", "sitecustomize.py", "usercustomize/__init__.py", "x.pth", ".venv/pyvenv.cfg"],
  ...["venv/bin/python", "env/lib/x.py", "lib/site-packages/a.py", "node_modules/a/index.js", "conftest.py"],
  ...[".git/config", ".vscode/tasks.json", ".envrc", ".mcp.json", "HEAD", "linked/tasks.json"],
];

const s6 = {
  id: "S6",
  class: "S5",
  what: "export_file puts what is run by itself among the user's files, or replaces a program",
  async probe(stage) {
    const folder = filesDir(stage);
    const marker = markerIn(stage);
    mkdirSync(join(folder, ".vscode"));
    symlinkSync(".vscode", join(folder, "linked"));
    writeFileSync(join(folder, "bin/run"), "#!/bin/sh\n", { mode: 0o755 });
    const { run } = makeVenv(folder);
    const server = await serve(stage, "--files-dir", folder);
    const session = await stage.session(server, `open("evil", "w").write(${q(startupLine(marker))})`);
    const got = [];
    for (const host_path of exported) {
      const reply = await session.call("export_file", { path: "evil", host_path, overwrite: true });
      if (!reply.isError) got.push(host_path);
    }
    expect(got.length === 0, `not refused: ${got.join(", ")}`);
    spawnSync("python3", ["-c", "1"], { cwd: folder, env: { PATH: process.env.PATH, PYTHONPATH: folder } });
    run();
    expect(!existsSync(marker), "a Python ran what was exported");
    await session.call("export_file", { path: "evil", host_path: "bin/run", overwrite: true });
    expect((statSync(join(folder, "bin/run")).mode & 0o111) === 0, "what replaced a program can be run");
    const harmless = await session.call("export_file", { path: "evil", host_path: "results/data.txt" });
    expect(!harmless.isError, `an ordinary file was refused: ${harmless.text}`);
    return `${exported.length} names refused`;
  },
  async control(stage) {
    const folder = filesDir(stage);
    const marker = markerIn(stage);
    const evil = join(folder, "evil");
    writeFileSync(evil, startupLine(marker));
    mkdirSync(join(folder, "usercustomize"));
    // As a tool that only joins paths would do it.
    for (const name of ["sitecustomize.py", "usercustomize/__init__.py"]) copyFileSync(evil, join(folder, name));
    spawnSync("python3", ["-c", "1"], { cwd: folder, env: { PATH: process.env.PATH, PYTHONPATH: folder } });
    proves(existsSync(marker), "Python does not import them by itself");
    rmSync(marker);
    writeFileSync(join(folder, "bin/run"), "#!/bin/sh\n", { mode: 0o755 });
    writeFileSync(join(folder, "bin/run"), `#!/bin/sh\ntouch ${marker}\n`);
    spawnSync(join(folder, "bin/run"));
    proves(existsSync(marker), "a replaced program does not run");
    return "a copy by path runs";
  },
};

export default [s3, s6, s7, s7Files];
