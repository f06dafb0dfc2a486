// Group B for local kernels and bash, second part: filling the disk, and deceptive files.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, protects, proves, short, sleep, timed, until } from "./case.mjs";
import { runsAgain, unlimited } from "./local-bombs.mjs";
import { DISK_MB, forBoth, inPython, PIDS, patience, sessionIn, startLocal } from "./local-stage.mjs";
import { smallDisk } from "./stage.mjs";
import { JAILED } from "./tier.mjs";

/** 8 MB every 25 ms, about as fast as a real disk, so that the check interval matters. All stop at 400 MB. */
const pour = (target) => `block = bytes(8_000_000)
def pour():
    for i in range(50):
        try: ${target}
        except OSError: pass
        time.sleep(0.025)
    print("poured")
`;
const writeTo = (path) => `open(${path}, "wb").write(block)`;
/** A descriptor of the kernel itself for a file outside, reopened for writing. */
const ownDescriptor = (name) => `held = []
for fd in os.listdir("/proc/self/fd"):
    try:
        if os.readlink("/proc/self/fd/" + fd).endswith(${JSON.stringify(name)}): held.append(os.open("/proc/self/fd/" + fd, os.O_WRONLY | os.O_APPEND))
    except OSError: pass
`;

const diskBombs = {
  "many files": `${pour(writeTo('f"f{i}"'))}pour()`,
  "one file": `${pour('open("x", "ab").write(block)')}pour()`,
  "files without a name": `held = []\ndef hold(i):\n    held.append(open(f"u{i}", "wb"))\n    os.unlink(f"u{i}")\n    held[-1].write(block)\n    held[-1].flush()\n${pour("hold(i)")}pour()`,
  "the folder of sockets": `${pour(writeTo('f"{SOCKETS}/f{i}"'))}pour()`,
  "the kernel's journal": `${ownDescriptor("/journal")}${pour("[os.write(one, block) for one in held]")}pour()`,
  "the kernel's heartbeat": `${ownDescriptor("/heartbeat")}${pour("[os.write(one, block) for one in held]")}pour()`,
  "all of them": `${ownDescriptor("/heartbeat")}${ownDescriptor("/journal").replace("held = []\n", "")}${pour(`(${writeTo('f"f{i}"')}, [os.write(one, block) for one in held], ${writeTo('f"{SOCKETS}/f{i}"')})`)}pour()`,
  // Slower: between cells the check interval is a second.
  "a process that stays": `${pour(writeTo('f"f{i}"')).replace("8_000_000", "2_000_000").replace("50", "200")}if os.fork() == 0:\n    os.setsid()\n    pour()\n    os._exit(0)`,
  "below a path too long for the server": `home = os.getcwd()\nfor _ in range(25):\n    os.mkdir("d" * 200)\n    os.chdir("d" * 200)\n${pour(writeTo('f"f{i}"'))}pour()\nos.chdir(home)`,
  "room without writing": `libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]\nfor i in range(10):\n    with open(f"r{i}", "wb") as file: print(libc.fallocate(file.fileno(), 0, 0, 40_000_000))\nprint("poured")`,
  "by programs": `${pour('sh("head -c 8000000 /dev/zero >p%d" % i)')}pour()`,
  "a zip bomb": `import io, zipfile\nbuffer = io.BytesIO()\nwith zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:\n    for i in range(40): packed.writestr(f"z{i}", bytes(10_000_000))\nzipfile.ZipFile(buffer).extractall(".")\nprint("poured")`,
};
/** The tolerance, and what is written between two checks. */
const diskBoundMb = () => DISK_MB + 32 + 140 * Math.min(2, patience());

const b24 = forBoth((language) => ({
  id: "B24",
  alone: true,
  class: "A2*",
  what: "fill the disk: workspace, nameless, sockets, the kernel's own files, from behind",
  needs: needsMount,
  async probe(stage) {
    const disk = smallDisk(join(stage.folder, "small"), 700);
    stage.after(() => disk.release());
    const server = await onDisk(stage, disk.folder);
    const through = [];
    const isKernelsOwn = (name) => /socket|kernel|all/.test(name);
    const bombs = stage.some(diskBombs, 8).filter(([name]) => language === "python" || !isKernelsOwn(name));
    for (const [name, code] of bombs) {
      const session = await sessionIn(stage, server, language);
      const before = usedMb(disk.folder);
      let peak = 0;
      const watch = setInterval(() => {
        peak = Math.max(peak, usedMb(disk.folder) - before);
      }, 20);
      await session.run(inPython(language, code), { timeout_s: 20 });
      if (name.includes("stays")) await sleep(3_500);
      clearInterval(watch);
      if (peak > diskBoundMb()) through.push(`${name}: ${Math.round(peak)} MB`);
      const written = await server.admin.run("1", { session_id: server.neighbour });
      expect(written.status === "ok", `${name}: the neighbour's journal cannot be written: ${short(written.text)}`);
      await session.close();
      await until("the space to be free again", () => usedMb(disk.folder) - before < 20, 8_000);
    }
    protects(through.length === 0, `--disk-mb ${DISK_MB}, but ${through.join("; ")}`);
    return `${bombs.length} bombs`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await unlimited(stage), language);
    const { text } = await session.run(inPython(language, diskBombs["many files"]), { timeout_s: 60 });
    const { stdout } = spawnSync("du", ["-sm", session.workspace], { encoding: "utf8" });
    proves(text.includes("poured") && Number.parseInt(stdout, 10) > 370, `${short(text)}, ${stdout}`);
    return "400 MB with --disk-mb 4096";
  },
}));

const b25 = forBoth((language) => ({
  id: "B25",
  class: "A2*",
  what: "the host's disk is full under journal, sockets and logs",
  needs: needsMount,
  async probe(stage) {
    const disk = smallDisk(join(stage.folder, "full"), 64);
    stage.after(() => disk.release());
    const server = await onDisk(stage, disk.folder);
    const isPython = language === "python";
    const session = await sessionIn(stage, server, language, isPython ? "state = 1234" : "state=1234");
    fillUp(disk.folder);
    const cells = isPython
      ? ["state", 'open("x", "w").write("x" * 100_000)', "print('y' * 1_000_000)"]
      : ["echo $state", "head -c 100000 /dev/zero >x", "head -c 1000000 /dev/zero | tr '\\0' y"];
    for (const code of cells) {
      const reply = await session.run(code);
      expect(!/error: internal/.test(reply.text), `a full disk is a bug: ${short(reply.text)}`);
    }
    const fresh = await server.admin.run(isPython ? "1" : "echo 1", { language });
    expect(!/error: internal/.test(fresh.text), `a new session on a full disk: ${short(fresh.text)}`);
    if (fresh.session) await server.admin.call("close_session", { session_id: fresh.session, delete_files: true });
    rmSync(join(disk.folder, "ballast"));
    const after = await session.run(isPython ? "state" : "echo $state");
    expect(after.text.includes("1234"), `not recovered: ${short(after.text)}`);
    await runsAgain(await sessionIn(stage, server, language), "a new session after recovery");
  },
  async control(stage) {
    const disk = smallDisk(join(stage.folder, "full2"), 16);
    stage.after(() => disk.release());
    fillUp(disk.folder);
    let code;
    try {
      writeFileSync(join(disk.folder, "journal"), "x".repeat(10_000));
    } catch (error) {
      code = error.code;
    }
    proves(code === "ENOSPC", `a plain write: ${code ?? "it worked"}`);
    return "a plain append fails with ENOSPC";
  },
}));

const seeming = {
  sparse:
    "for size in (10**12, 10**9):\n    try:\n        with open('odd', 'wb') as file: file.truncate(size)\n    except OSError as error: print(error)",
  "a link to /dev/zero": "os.symlink('/dev/zero', 'odd')",
  FIFO: "os.mkfifo('odd')",
  "a socket": "socket.socket(socket.AF_UNIX).bind('odd')",
  "a packed terabyte": "import gzip\nwith gzip.open('odd', 'wb') as packed: packed.write(bytes(50_000_000))",
};

const b29 = forBoth((language) => ({
  id: "B29",
  class: "A2*",
  what: "sparse files, endless ones, FIFOs, sockets, packed ones: read and listed",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    for (const [name, code] of Object.entries(seeming)) {
      await session.run(inPython(language, `if os.path.lexists("odd"): os.unlink("odd")\n${code}`));
      for (const [tool, args] of [
        ["read_file", { path: "odd" }],
        ["edit_file", { path: "odd", old_text: "a", new_text: "b" }],
        ["list_files", {}],
      ]) {
        const { value, ms } = await timed(() => session.call(tool, args));
        expect(!/error: internal/.test(value.text), `${tool} of ${name}: ${short(value.text)}`);
        expect(value.whole.length < 1_500_000, `${tool} of ${name}: a reply of ${value.whole.length} bytes`);
        protects(ms < 5_000, `${tool} of ${name} took ${Math.round(ms)} ms`);
      }
      await server.admin.raw.readResource({ uri: `cell://${session.id}/odd` }).catch(() => {});
      await runsAgain(session, name);
    }
  },
  async control(stage) {
    const folder = join(stage.folder, "odd");
    mkdirSync(folder, { recursive: true });
    spawnSync("mkfifo", [join(folder, "fifo")]);
    const blocked = spawnSync("cat", [join(folder, "fifo")], { timeout: 700 });
    rmSync(folder, { recursive: true });
    proves(String(blocked.error).includes("ETIMEDOUT"), "reading a FIFO does not block");
    return "a plain read blocks on a FIFO";
  },
}));

function needsMount(stage) {
  const disk = smallDisk(join(stage.folder, "try"), 1);
  disk?.release();
  return disk ? undefined : "a file system of limited size cannot be mounted here";
}

function usedMb(folder) {
  const { blocks, bfree, bsize } = statfsSync(folder);
  return ((blocks - bfree) * bsize) / 1e6;
}

function fillUp(folder) {
  spawnSync("dd", ["if=/dev/zero", `of=${join(folder, "ballast")}`, "bs=64k"]);
}

async function onDisk(stage, folder) {
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  // The disk is in memory, and counted for the writer.
  const args = [...JAILED, "--memory-mb", "2048", "--disk-mb", String(DISK_MB), "--pids", String(PIDS), "--warm", "0"];
  return stage.ownServer((env) => startLocal({ args, env, dataDir }));
}

export default [...b24, ...b25, ...b29];
