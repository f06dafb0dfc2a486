// Group D: paths, links, special files, names, and concurrent changes. Through the file tools and resources.
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  constants,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, Invalid, js, proves, short, timed, until } from "./case.mjs";

/** Every way in which a path reaches a file, as the text of the answer. */
export async function tryPath(server, session, path) {
  const text = (work) =>
    work.then(
      (value) => value.whole ?? JSON.stringify(value),
      (error) => error.message,
    );
  return {
    read_file: await text(session.call("read_file", { path })),
    list_files: await text(session.call("list_files", { path })),
    write_file: await text(session.call("write_file", { path, content: "overwritten" })),
    edit_file: await text(session.call("edit_file", { path, old_text: "flag", new_text: "overwritten" })),
    delete_file: await text(session.call("delete_file", { path })),
    resource: await text(
      server.admin.raw.readResource({
        uri: `cell://${session.id}/${path.split("/").map(encodeURIComponent).join("/")}`,
      }),
    ),
    "raw resource": await text(server.admin.raw.readResource({ uri: `cell://${session.id}/${path}` })),
    export_file: await text(session.call("export_file", { path, host_path: "stolen.txt" })),
  };
}

export function intact(stage, where) {
  expect(
    existsSync(stage.flagFile) && readFileSync(stage.flagFile, "utf8") === stage.flag,
    `a file of the host was changed by ${where}`,
  );
}

const d49 = {
  id: "D49",
  class: "S5",
  what: "paths: .., absolute, encoded, NUL, backslash, sibling with the same prefix",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const session = await stage.session(server);
    const sibling = `${session.workspace}0`;
    mkdirSync(sibling);
    writeFileSync(join(sibling, "secret.txt"), stage.flag);
    const up = "../".repeat(12) + stage.flagFile.slice(1);
    const paths = [
      up,
      `./${up}`,
      `a/../${up}`,
      stage.flagFile,
      `/${stage.flagFile}`,
      `file://${stage.flagFile}`,
      "../workspace0/secret.txt",
      "../session.json",
      "../journal.ndjson",
      "..",
      "../",
      ".",
      "",
      " ",
      "/",
      "//",
      "...",
      "..\\..\\..\\etc\\passwd",
      up.replaceAll("../", "..\\"),
      up.replaceAll("..", "%2e%2e"),
      up.replaceAll("../", "%2e%2e%2f"),
      up.replaceAll("../", "..%2f"),
      up.replaceAll("../", "%252e%252e%252f"),
      up.replaceAll("../", "..%c0%af"),
      `${up}\0.txt`,
      `a\0/../${up}`,
      `~/${stage.flagFile}`,
      `${up}/.`,
      up.replaceAll("../", "..//"),
      up.replaceAll("../", ".\u2024/"),
      up.replaceAll("..", "\uff0e\uff0e"),
      "\\\\?\\C:\\Windows",
      "C:\\Windows",
      "/proc/self/environ",
      "/proc/self/fd/0",
      `../../${server.neighbour}/workspace/secret.txt`,
      "a/".repeat(3000),
      "x".repeat(100_000),
      ".outputs/../../session.json",
      ".outputs/..%2f..%2fsession.json",
      ".outputs",
      ".outputs/",
    ];
    for (const path of paths) {
      for (const [tool, text] of Object.entries(await tryPath(server, session, path))) {
        expect(
          !text.includes(stage.flag) && !text.includes(server.keep),
          `${tool} ${JSON.stringify(path).slice(0, 80)} leaks`,
        );
        expect(
          !/error: internal|"code":-32603/.test(text),
          `${tool} ${JSON.stringify(path).slice(0, 80)}: ${short(text)}`,
        );
      }
      intact(stage, path);
    }
    expect(readFileSync(join(sibling, "secret.txt"), "utf8") === stage.flag, "the sibling was changed");
    expect(!existsSync("stolen.txt"), "something was exported");
    rmSync(sibling, { recursive: true });
    return `${paths.length} paths, 8 ways each`;
  },
  async control(stage) {
    const root = join(stage.folder, "ws1");
    mkdirSync(root, { recursive: true });
    const naive = readFileSync(normalize(`${root}/${"../".repeat(12)}${stage.flagFile}`), "utf8");
    proves(naive === stage.flag, "a naive join stays inside");
    return "a naive join reads the flag";
  },
};

/** Races run in a separate process: `swap`, `rewrite` or `truncate` in a folder until it is killed. */
async function startRacer(stage, mode, folder, ...more) {
  const racer = fork(fileURLToPath(new URL("./racer.mjs", import.meta.url)), [mode, folder, ...more]);
  await once(racer, "message");
  stage.after(() => void racer.kill("SIGKILL"));
  let rests = 0;
  racer.on("message", () => {
    rests += 1;
  });
  const stop = () => {
    // If a racer has died, the remaining calls had no race.
    if (racer.exitCode !== null || racer.signalCode !== null) throw new Invalid("the racer died during the race");
    racer.kill("SIGKILL");
  };
  return Object.assign(stop, { rests: () => rests });
}

/** Links that existed in the workspace before the cell started. */
async function followInCell(stage, wall) {
  const session = await stage.session(await stage.server(wall));
  symlinkSync(stage.flagFile, join(session.workspace, "file"));
  symlinkSync(stage.folder, join(session.workspace, "folder"));
  for (const path of ["file", "folder/flag.txt"]) {
    const q = JSON.stringify(path);
    for (const code of [
      `open(${q}).read()`,
      js(`return Deno.readTextFileSync(W + "/" + ${q})`),
      js(`return String((await import("node:fs")).readFileSync(W + "/" + ${q}))`),
    ]) {
      const reply = await session.run(code);
      expect(!reply.whole.includes(stage.flag), `a cell reads through a link that leads out, --jail ${wall}: ${path}`);
    }
    await session.run(`open(${q}, "a").write("x")`);
    await session.run(js(`Deno.writeTextFileSync(W + "/" + ${q}, "x", { append: true }); return 1`));
    await session.run(js(`Deno.truncateSync(W + "/" + ${q}); return 1`));
    await session.run(js(`Deno.chmodSync(W + "/" + ${q}, 0); return 1`));
    intact(stage, `a cell through ${path}`);
  }
  await session.run(js('Deno.removeSync(W + "/folder/flag.txt"); return 1'));
  await session.run(js('Deno.renameSync(W + "/folder/flag.txt", W + "/taken"); return 1'));
  intact(stage, "a cell through a linked folder");
}

const d50 = {
  id: "D50",
  class: "S5",
  what: "links out of the workspace; a folder swapped for a link during reads and writes ↻",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const session = await stage.session(server);
    const at = (name) => join(session.workspace, name);
    // WASM kernels cannot make links (A1); a user's own program, or an archive unpacked by one, can.
    symlinkSync(stage.flagFile, at("absolute"));
    symlinkSync(stage.folder, at("folder"));
    symlinkSync(`../../../../../../../../../..${stage.flagFile}`, at("relative"));
    symlinkSync("absolute", at("chain"));
    symlinkSync("loop", at("loop"));
    symlinkSync("/proc/self/root", at("root"));
    symlinkSync("..", at("up"));
    for (const path of [
      "absolute",
      "folder/flag.txt",
      "folder",
      "relative",
      "chain",
      "loop",
      `root${stage.flagFile}`,
      "root",
      "up",
      "up/session.json",
      "up/journal.ndjson",
    ]) {
      for (const [tool, text] of Object.entries(await tryPath(server, session, path))) {
        expect(!text.includes(stage.flag), `${tool} ${path} leaks`);
        expect(!/error: internal|"code":-32603/.test(text), `${tool} ${path}: ${short(text)}`);
      }
      intact(stage, path);
    }
    const outside = join(stage.folder, "outside");
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, "file.txt"), stage.flag);
    const stop = await startRacer(stage, "swap", session.workspace, outside);
    const times = stage.times(1_000, 200);
    let served = 0;
    for (let turn = 0; turn < times; turn += 1) {
      const reply = await (turn % 3 === 2
        ? session.call("write_file", { path: "d/file.txt", content: "mine" })
        : session.call("read_file", { path: "d/file.txt" }));
      expect(!reply.whole.includes(stage.flag), `read ${turn + 1} followed the link`);
      if (!reply.isError) served += 1;
    }
    stop();
    expect(
      readFileSync(join(outside, "file.txt"), "utf8") === stage.flag && readdirSync(outside).length === 1,
      "a write followed the link",
    );
    expect(served > 0, "no call was served, so nothing was raced");
    for (const wall of stage.walls) await followInCell(stage, wall);
    return `${times} calls during the swaps, ${served} served`;
  },
  async control(stage) {
    const root = join(stage.folder, "naive");
    const outside = join(stage.folder, "outside2");
    for (const folder of [root, outside]) mkdirSync(folder, { recursive: true });
    writeFileSync(join(outside, "file.txt"), stage.flag);
    const stop = await startRacer(stage, "swap", root, outside);
    let leaked = 0;
    for (let turn = 0; turn < 100_000 && leaked === 0; turn += 1) {
      try {
        // Check, then open: what a naive tool does.
        if (
          lstatSync(join(root, "d")).isDirectory() &&
          readFileSync(join(root, "d", "file.txt"), "utf8") === stage.flag
        )
          leaked += 1;
      } catch {}
    }
    stop();
    proves(leaked > 0, "checking before opening was never caught out");
    return "check, then open, is caught out";
  },
};

const d51 = {
  id: "D51",
  class: "S5",
  what: "hard link, FIFO, socket, device as a target: refused without blocking",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const session = await stage.session(server);
    const at = (name) => join(session.workspace, name);
    linkSync(stage.flagFile, at("hard"));
    spawnSync("mkfifo", [at("fifo")]);
    const socket = createServer().listen(at("socket"));
    await once(socket, "listening");
    const device = spawnSync("mknod", [at("device"), "c", "1", "5"]).status === 0 ? ["device"] : [];
    symlinkSync("/dev/zero", at("zero"));
    for (const name of ["hard", "fifo", "socket", ...device, "zero"]) {
      for (const tool of ["read_file", "edit_file", "write_file", "list_files"]) {
        const more = {
          read_file: {},
          edit_file: { old_text: "flag", new_text: "x" },
          write_file: { content: "x" },
          list_files: {},
        }[tool];
        const { value, ms } = await timed(() => session.call(tool, { path: name, ...more }));
        expect(value.isError, `${tool} ${name} is served: ${short(value.text)}`);
        expect(
          !value.whole.includes(stage.flag) && !/error: internal/.test(value.text),
          `${tool} ${name}: ${short(value.text)}`,
        );
        expect(ms < 1_500, `${tool} ${name} took ${Math.round(ms)} ms`);
      }
      const { value, ms } = await timed(() =>
        server.admin.raw
          .readResource({ uri: `cell://${session.id}/${name}` })
          .then(JSON.stringify, (error) => error.message),
      );
      expect(!value.includes(stage.flag) && ms < 1_500, `resource ${name}: ${short(value)}`);
      intact(stage, name);
    }
    // A cell encounters them, too: it must not crash the server, and a scan must not block.
    const { value, ms } = await timed(() => session.run("import os\nsorted(os.listdir('.'))", { timeout_s: 5 }));
    expect(value.status === "ok" && ms < 5_000, `a cell beside a FIFO: ${value.status}, ${Math.round(ms)} ms`);
    socket.close();
    await session.call("delete_file", { path: "fifo" });
    expect(!existsSync(at("fifo")), "a FIFO cannot be deleted");
  },
  async control(stage) {
    const folder = join(stage.folder, "special");
    mkdirSync(folder, { recursive: true });
    linkSync(stage.flagFile, join(folder, "hard"));
    proves(readFileSync(join(folder, "hard"), "utf8") === stage.flag, "a hard link cannot be read");
    spawnSync("mkfifo", [join(folder, "fifo")]);
    const blocked = spawnSync("cat", [join(folder, "fifo")], { timeout: 700 });
    rmSync(folder, { recursive: true });
    proves(String(blocked.error).includes("ETIMEDOUT"), "reading a FIFO does not block");
    return "a plain read gets the flag, and blocks on a FIFO";
  },
};

export const names = [
  "n".repeat(255),
  "n".repeat(256),
  "é".repeat(127),
  "é".repeat(128),
  "line\nbreak",
  "\u202egnp.exe",
  "-rf",
  "--help",
  "Case",
  "case",
  "CASE",
  " leading",
  "trailing ",
  ".hidden",
  "...",
  "a b",
  "quote'\"`$(id)",
  "*",
  "?",
  "tab\there",
  "\u001b[31mred",
  "e\u0301",
  "\u00e9",
  "CON",
  "nul.txt",
  "a:b",
  "😀",
  "\ufeffbom",
  "zero\u200bwidth",
  "%41",
  "%2e%2e",
  "#x",
  "a?b",
  "a&b=c",
  ";",
  "\u2028",
];

const d52 = {
  id: "D52",
  class: "S5",
  what: "names: too long, line ends, right to left, options, case, bytes that are no text",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const session = await stage.session(server);
    for (const [index, path] of names.entries()) {
      const content = `content ${index}`;
      const written = await session.call("write_file", { path, content });
      expect(
        !/error: internal/.test(written.text),
        `write ${JSON.stringify(path).slice(0, 60)}: ${short(written.text)}`,
      );
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(!/\u001b/.test(written.text), "a name drives the terminal");
      if (written.isError) continue;
      const read = await session.call("read_file", { path });
      expect(read.text.includes(content), `${JSON.stringify(path).slice(0, 60)} is not read back: ${short(read.text)}`);
    }
    writeFileSync(Buffer.concat([Buffer.from(`${session.workspace}/`), Buffer.from([0xff, 0xfe, 0x41])]), "bytes");
    const listed = await session.call("list_files");
    expect(!listed.isError, short(listed.text));
    const resources = await server.admin.raw.listResources();
    expect(Array.isArray(resources.resources), "resources cannot be listed");
    const cell = await session.run("import os\nlen(os.listdir('.'))");
    expect(cell.status === "ok", short(cell.text));
    for (const path of ["case", "-rf", "line\nbreak"]) {
      const reply = await session.call("delete_file", { path });
      expect(!reply.isError, `delete ${JSON.stringify(path)}: ${short(reply.text)}`);
    }
    expect(
      (await session.call("read_file", { path: "CASE" })).text.includes("content"),
      "deleting one case deleted another",
    );
  },
  async control(stage) {
    const folder = join(stage.folder, "names");
    mkdirSync(folder, { recursive: true });
    const made = names.filter((name) => {
      try {
        writeFileSync(`${folder}/${name}`, "x");
        return true;
      } catch {
        return false;
      }
    });
    rmSync(folder, { recursive: true });
    proves(made.length > names.length - 4, `only ${made.length} names exist on this disk`);
    return `${made.length} of ${names.length} names are possible`;
  },
};

const isMixed = (text) => new Set(text).size > 1;

const d53 = {
  id: "D53",
  class: "S5",
  what: "a file rewritten or cut while it is read ↻ 50",
  async probe(stage) {
    const server = await stage.server(stage.walls[0]);
    const session = await stage.session(server);
    const told = [];
    for (const mode of ["rewrite", "truncate"]) {
      const stop = await startRacer(stage, mode, session.workspace);
      const counts = { whole: 0, error: 0 };
      const times = stage.times(100, 50);
      for (let turn = 0; turn < times; turn += 1) {
        const restsBefore = stop.rests();
        const result = await server.admin.raw.readResource({ uri: `cell://${session.id}/moving.txt` }).then(
          ({ contents: [content] }) => content.text ?? Buffer.from(content.blob, "base64").toString(),
          () => undefined,
        );
        if (result === undefined) counts.error += 1;
        else {
          // On a busy machine the racer may be paused in the middle: then the file really had this content.
          const torn = `a rest of the writer: read ${turn + 1} of ${mode} is half one version, half another`;
          if (isMixed(result)) await until(torn, () => stop.rests() > restsBefore, 1_000);
          counts.whole += 1;
        }
      }
      stop();
      told.push(`${mode}: ${counts.whole} whole, ${counts.error} refused`);
    }
    return told.join("; ");
  },
  async control(stage) {
    const folder = join(stage.folder, "moving");
    mkdirSync(folder, { recursive: true });
    const stop = await startRacer(stage, "rewrite", folder);
    let mixed = 0;
    for (let turn = 0; turn < 2_000 && mixed === 0; turn += 1) {
      const fd = openSync(join(folder, "moving.txt"), constants.O_RDONLY);
      if (isMixed(readFileSync(fd, "utf8"))) mixed += 1;
      closeSync(fd);
    }
    stop();
    proves(mixed > 0, "a plain read was never mixed");
    return "a plain read gets a mixture";
  },
};

export default [d49, d50, d51, d52, d53];
