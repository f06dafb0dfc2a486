// Group D for local kernels and bash: the kernel itself creates links, special files and races.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, proves, short, timed, until } from "./case.mjs";
import wasmCases, { intact, names, tryPath } from "./files.mjs";
import { forBoth, inPython, patience, sessionIn } from "./local-stage.mjs";

const q = JSON.stringify;

/** How tools treat paths does not depend on the kernel; sessions and their folders do. */
const d49 = wasmCases.filter(({ id }) => id === "D49").map((one) => ({ ...one, kernel: "local" }));

/** Leaves a background process that repeats an action until the session is closed. */
const leave = (loop) => `if os.fork() == 0:\n    os.setsid()\n${loop.replaceAll(/^/gm, "    ")}`;

const d50 = forBoth((language) => ({
  id: "D50",
  class: "S5",
  what: "links out of the workspace, made by the kernel; a folder swapped for a link meanwhile ↻",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const up = `${"../".repeat(12)}${stage.flagFile.slice(1)}`;
    const links = {
      absolute: stage.flagFile,
      folder: stage.folder,
      relative: up,
      chain: "absolute",
      loop: "loop",
      root: "/proc/self/root",
      up: "..",
      cwd: "/proc/self/cwd",
      environ: "/proc/self/environ",
    };
    await session.run(
      inPython(language, `for name, target in json.loads(${q(q(links))}).items(): os.symlink(target, name)`),
    );
    const paths = [
      ...Object.keys(links),
      "folder/flag.txt",
      `root${stage.flagFile}`,
      "up/session.json",
      "up/run/kernel.json",
      "chain/x",
    ];
    for (const path of paths) {
      for (const [tool, text] of Object.entries(await tryPath(server, session, path))) {
        expect(!text.includes(stage.flag) && !text.includes("CELLWRIGHT_ATTACK"), `${tool} ${path} leaks`);
        expect(!/error: internal|"code":-32603/.test(text), `${tool} ${path}: ${short(text)}`);
      }
      intact(stage, path);
    }
    const outside = join(stage.folder, "outside-local");
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, "file.txt"), stage.flag);
    const swap = `os.makedirs("d", exist_ok=True)\nopen("d/file.txt", "w").write("mine")\nos.symlink(${q(outside)}, "l")\nwhile True:\n    try:\n        os.rename("d", "aside")\n        os.rename("l", "d")\n        os.rename("d", "l")\n        os.rename("aside", "d")\n    except OSError:\n        import shutil\n        try:\n            if os.path.lexists("aside"):\n                shutil.rmtree("d", ignore_errors=True)\n                os.rename("aside", "d")\n            os.path.lexists("l") or os.symlink(${q(outside)}, "l")\n        except OSError: pass`;
    await session.run(inPython(language, leave(swap)));
    const begun = async () => !(await session.call("read_file", { path: "d/file.txt" })).isError;
    await until("the race to begin", begun, 30_000);
    const times = stage.times(1_000, 150);
    let served = 0;
    for (let turn = 0; turn < times; turn += 1) {
      const reply = await (turn % 3 === 2
        ? session.call("write_file", { path: "d/file.txt", content: "mine" })
        : session.call("read_file", { path: "d/file.txt" }));
      expect(!reply.whole.includes(stage.flag), `read ${turn + 1} followed the link`);
      if (!reply.isError) served += 1;
    }
    // The scan for changed files is covered, too, and the folder is deleted in the end.
    await session.run(language === "python" ? "1" : "echo 1");
    await session.close();
    const isUntouched =
      readFileSync(join(outside, "file.txt"), "utf8") === stage.flag && readdirSync(outside).length === 1;
    expect(isUntouched, "a write or the end of the session followed the link");
    intact(stage, "the end of the session");
    expect(served > 0, "no call was served, so nothing was raced");
    return `${times} calls during the swaps, ${served} served`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    await session.run(inPython(language, `os.symlink(${q(stage.flagFile)}, "naive")`));
    proves(readFileSync(join(session.workspace, "naive"), "utf8") === stage.flag, "the link leads nowhere");
    return "a plain read follows the kernel's link";
  },
}));

const d51 = forBoth((language) => ({
  id: "D51",
  class: "S5",
  what: "FIFO, socket, device, links to devices as targets: refused without blocking",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const made = await session.run(
      inPython(
        language,
        `os.mkfifo("fifo")\nsocket.socket(socket.AF_UNIX).bind("socket")\nos.symlink("/dev/zero", "zero")\nos.symlink("/dev/tty", "tty")\nos.symlink("fifo", "to-fifo")\ntry: os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))\nexcept OSError as error: print("refused", error)\nprint(sorted(os.listdir(".")))`,
      ),
    );
    expect(made.text.includes("refused"), `a device could be made: ${short(made.text)}`);
    for (const name of ["fifo", "socket", "zero", "tty", "to-fifo"]) {
      for (const [tool, more] of Object.entries({
        read_file: {},
        edit_file: { old_text: "a", new_text: "x" },
        write_file: { content: "x" },
        list_files: {},
      })) {
        const { value, ms } = await timed(() => session.call(tool, { path: name, ...more }));
        expect(value.isError, `${tool} ${name} is served: ${short(value.text)}`);
        expect(!/error: internal/.test(value.text), `${tool} ${name}: ${short(value.text)}`);
        expect(ms < 1_500 * patience(), `${tool} ${name} took ${Math.round(ms)} ms`);
      }
    }
    const { value, ms } = await timed(() => session.run(language === "python" ? "1" : "echo 1", { timeout_s: 5 }));
    expect(
      value.status === "ok" && ms < 5_000 * patience(),
      `a cell beside a FIFO: ${value.status}, ${Math.round(ms)} ms`,
    );
    await session.call("delete_file", { path: "fifo" });
    expect(!existsSync(join(session.workspace, "fifo")), "a FIFO cannot be deleted");
  },
  control: wasmCases.find(({ id }) => id === "D51").control,
}));

const d52 = forBoth((language) => ({
  id: "D52",
  class: "S5",
  what: "names: too long, line ends, right to left, options, case, bytes that are no text",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const made = await session.run(
      inPython(
        language,
        `made = 0\nfor name in json.loads(${q(q(names))}):\n    try:\n        with open(name, "w") as file: file.write("content")\n        made += 1\n    except OSError: pass\nfor name in (b"\\xff\\xfe\\x41", b"\\xed\\xa0\\x80"):\n    with open(name, "w") as file: file.write("bytes")\nprint("made", made)`,
      ),
    );
    expect(/made 3\d/.test(made.text), short(made.text));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    const drives = /[\u001b\u0007]/;
    expect(!drives.test(made.text), "a name drives the terminal in the reply");
    const listed = await session.call("list_files");
    expect(!listed.isError && !drives.test(listed.text), short(listed.text));
    const read = await session.call("read_file", { path: "-rf" });
    expect(read.text.includes("content"), short(read.text));
    const resources = await server.admin.raw.listResources();
    expect(Array.isArray(resources.resources), "resources cannot be listed");
    for (const path of ["case", "-rf", "line\nbreak"])
      expect(!(await session.call("delete_file", { path })).isError, `delete ${q(path)}`);
    expect(
      (await session.call("read_file", { path: "CASE" })).text.includes("content"),
      "deleting one case deleted another",
    );
    const folder = join(session.workspace, "..");
    await session.close();
    expect(!existsSync(folder), "files with such names are left");
  },
  control: wasmCases.find(({ id }) => id === "D52").control,
}));

/** Each piece contains its version; the first ones are written first. */
const rewriting = `version = 0
while True:
    version += 1
    with open("moving.txt", "r+b", 0) as file:
        for _ in range(64): file.write(b"%08d" % version * 512)
    if os.urandom(1)[0] < 12: time.sleep(0.04)`;

/** Whether the file never had this content: new pieces come before old ones, and are at most one version newer. */
function isTorn(text) {
  const versions = Array.from({ length: 64 }, (_, piece) => Number(text.slice(piece * 4096, piece * 4096 + 8)));
  return (
    versions.some((version, piece) => piece > 0 && version > versions[piece - 1]) || versions[0] - versions[63] > 1
  );
}

const d53 = forBoth((language) => ({
  id: "D53",
  class: "S5",
  what: "a file that the kernel rewrites while it is read ↻ 50",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    await session.run(inPython(language, `open("moving.txt", "w").write("0" * 64 * 4096)\n${leave(rewriting)}`));
    const counts = { whole: 0, refused: 0 };
    for (let turn = 0; turn < stage.times(100, 50); turn += 1) {
      const text = await server.admin.raw.readResource({ uri: `cell://${session.id}/moving.txt` }).then(
        ({ contents: [content] }) => content.text ?? Buffer.from(content.blob, "base64").toString(),
        () => undefined,
      );
      counts[text === undefined ? "refused" : "whole"] += 1;
      expect(text === undefined || !isTorn(text), `read ${turn + 1} is half one version, half another`);
    }
    return `${counts.whole} whole, ${counts.refused} refused`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    await session.run(inPython(language, `open("moving.txt", "w").write("0" * 64 * 4096)\n${leave(rewriting)}`));
    let torn = 0;
    for (let turn = 0; turn < 5_000 && torn === 0; turn += 1)
      if (isTorn(readFileSync(join(session.workspace, "moving.txt"), "utf8"))) torn += 1;
    proves(torn > 0, "a plain read was never torn");
    return "a plain read gets a mixture";
  },
}));

export default [...d49, ...d50, ...d51, ...d52, ...d53];
