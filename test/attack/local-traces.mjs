// Group A for local kernels and bash, last part: what one session leaves for another, and what it starts from.
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, proves, short } from "./case.mjs";
import { environment, forBoth, forPython, inPython, LIMITS, sessionIn, startLocal } from "./local-stage.mjs";
import { hasNamespaces, JAILED } from "./tier.mjs";

const q = JSON.stringify;

const payload = Buffer.from('open("ran-payload", "w").close()').toString("base64");
const a15 = forBoth((language) => ({
  id: "A15",
  class: "S5",
  what: "a CSV that holds code is read and analysed",
  async probe(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    const evil = `exec(__import__('base64').b64decode('${payload}'))`;
    const csv = `name,value\n"=cmd|' /C calc'!A0","${evil}"\n"$(touch ran-payload)","\`touch ran-payload\`"\n`;
    await session.call("write_file", { path: "data.csv", content: csv });
    await session.call("read_file", { path: "data.csv" });
    const analyse =
      language === "python"
        ? 'import pandas\ntable = pandas.read_csv("data.csv")\nprint(table, table.describe(include="all"))'
        : 'while read -r line; do echo "$line"; done <data.csv; wc -l data.csv; sort data.csv';
    const reply = await session.run(analyse);
    expect(reply.text.includes("touch ran-payload"), short(reply.text));
    expect(!existsSync(join(session.workspace, "ran-payload")), "what was in the file has run");
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    await session.run(inPython(language, `exec(__import__('base64').b64decode('${payload}'))`));
    proves(existsSync(join(session.workspace, "ran-payload")), "the payload does nothing");
    return "it runs when the agent runs it";
  },
}));

/** What one session leaves and the next searches for, in places that they could share. */
const traces = {
  "/tmp": ['open("/tmp/cellwright-left", "w").write(mark)', 'print(read("/tmp/cellwright-left"))'],
  "/dev/shm": ['open("/dev/shm/cellwright-left", "w").write(mark)', 'print(read("/dev/shm/cellwright-left"))'],
  "System V memory": [
    "number_ = libc.shmget(0x43574154, 4096, 0o1666)\nlibc.shmat.restype = ctypes.c_void_p\nctypes.memmove(libc.shmat(number_, None, 0), mark.encode(), len(mark))",
    "number_ = libc.shmget(0x43574154, 4096, 0)\nlibc.shmat.restype = ctypes.c_void_p\nprint(ctypes.string_at(libc.shmat(number_, None, 0)))",
  ],
  "message queue": [
    'queue = libc.msgget(0x43574154, 0o1666)\nlibc.msgsnd(queue, struct.pack("l", 1) + mark.encode(), len(mark), 0)',
    "buffer = ctypes.create_string_buffer(200)\nlibc.msgrcv(libc.msgget(0x43574154, 0), buffer, 150, 0, 0o4000)\nprint(buffer.raw[8:])",
  ],
};
const sweep =
  'for path in ("/tmp/cellwright-left", "/dev/shm/cellwright-left"):\n    if os.path.exists(path): os.unlink(path)\nlibc.shmctl(libc.shmget(0x43574154, 4096, 0), 0, None)\nlibc.msgctl(libc.msgget(0x43574154, 0), 0, None)';

const a16 = forBoth((language) => ({
  id: "A16",
  class: "S5",
  what: "reach another session through /tmp, /dev/shm, System V memory, queues, sockets",
  async probe(stage) {
    const server = await stage.server("auto");
    const [one, other] = [await sessionIn(stage, server, language), await sessionIn(stage, server, language)];
    for (const [name, [leave, look]] of Object.entries(traces)) {
      await one.run(inPython(language, `mark = ${q(stage.flag)}\n${leave}`));
      const found = await other.run(inPython(language, look));
      const isShared = found.whole.includes(stage.flag);
      if (isShared && !hasNamespaces && name === "/dev/shm")
        stage.note(`${name}: shared memory can be opened by who knows its name; names cannot be listed`);
      else expect(!isShared, `${name} is shared between sessions`);
    }
    if (!hasNamespaces) {
      // Names cannot be listed, whatever created them.
      const listed = await other.run(
        inPython(language, 'try: print(GOT, os.listdir("/dev/shm"))\nexcept OSError as error: print(error)'),
      );
      expect(!listed.text.includes("GOT-THROUGH"), `names of shared memory are listed: ${short(listed.text)}`);
      await one.run(inPython(language, 'os.unlink("/dev/shm/cellwright-left")'));
    }
    const serve = `import threading\nlistener = socket.socket(socket.AF_UNIX)\nlistener.bind("\\0cellwright-left")\nlistener.listen()\nport = socket.create_server(("127.0.0.1", 47119))\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)`;
    await one.run(inPython(language, serve));
    const reached = await other.run(
      inPython(
        language,
        'for family, address in ((socket.AF_UNIX, "\\0cellwright-left"), (socket.AF_INET, ("127.0.0.1", 47119))):\n    try:\n        socket.socket(family).connect(address)\n        print(GOT)\n    except OSError as error: print(error)',
      ),
    );
    expect(!reached.text.includes("GOT-THROUGH"), "a socket of one session is reached from another");
  },
  async control(stage) {
    const server = await stage.server("none");
    const [one, other] = [await sessionIn(stage, server, language), await sessionIn(stage, server, language)];
    try {
      for (const [name, [leave, look]] of Object.entries(traces)) {
        await one.run(inPython(language, `mark = ${q(stage.flag)}\n${leave}`));
        const found = await other.run(inPython(language, look));
        proves(found.whole.includes(stage.flag), `${name}: ${short(found.text)}`);
      }
    } finally {
      await one.run(inPython(language, sweep));
    }
    return `${Object.keys(traces).length} traces are found without walls`;
  },
}));

/** Files that a Python or a shell reads at startup, and those from which our kernels start. */
const planting = (folders) => `folders = ${q(folders)}
told = []
text = "import builtins; builtins.planted = True"
for folder in [*folders, os.getcwd(), os.path.expanduser("~"), os.path.expanduser("~/.ipython/profile_default/startup"), os.environ.get("IPYTHONDIR", "/tmp/.ipython") + "/profile_default/startup", "/run/packages", "/run/cellwright/ipython/profile_default/startup", *sys.path]:
    for name in ("sitecustomize.py", "usercustomize.py", "planted.pth", "00-planted.py", "_cellwright.py", "ipykernel.py", "IPython.py", "zmq.py", "ast.py", ".bashrc", ".profile", ".bash_profile", ".inputrc", "pyvenv.cfg"):
        path = os.path.join(folder or ".", name)
        try:
            os.makedirs(folder or ".", exist_ok=True)
            if os.path.exists(path): continue
            with open(path, "w") as file: file.write("echo planted-line" if name.startswith(".") else text)
            told.append(path)
        except OSError: pass
print(*told)`;
const wasPlanted = { python: 'import builtins\nprint(hasattr(builtins, "planted"))', bash: "echo is it clean" };

const a17 = forBoth((language) => ({
  id: "A17",
  class: "S5",
  what: "leave sitecustomize, .pth, startup files, .bashrc for the next session, and for a reset one",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, language);
    const told = await session.run(inPython(language, planting(["/usr/lib/python3", environment, "/etc"])));
    const outside = told.text.match(/\/(?:usr|etc|opt|run\/packages)\/\S+/g);
    expect(!outside, `written outside of the session: ${short(outside)}`);
    expect(told.text.includes("sitecustomize.py"), "nothing could be planted at all");
    const next = await sessionIn(stage, server, language);
    await session.call("reset_session");
    for (const [name, again] of Object.entries({ "the next session": next, "the same session, reset": session })) {
      const reply = await again.run(wasPlanted[language]);
      const isClean = language === "python" ? reply.text.includes("False") : !reply.text.includes("planted-line");
      expect(isClean && !reply.isError, `it ran in ${name}: ${short(reply.text)}`);
    }
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), language);
    await session.run(inPython(language, planting([])));
    const reply = await session.run(
      language === "python"
        ? "import sitecustomize, builtins\nprint(hasattr(builtins, 'planted'))"
        : "bash -i -c : 2>/dev/null",
    );
    proves(/True|planted-line/.test(reply.text), short(reply.text));
    return "what was planted is live code";
  },
}));

const poison = `
import builtins, textwrap, sys, random, json, tempfile, numpy
builtins.poison = "poisoned"
textwrap.dedent = lambda text: "poisoned"
sys.modules["csv"] = "poisoned"
numpy.poison = 1
random.seed(1)
numpy.random.seed(1)
open(tempfile.gettempdir() + "/poison", "w").close()
`;
const taste =
  'import builtins, textwrap, sys, random, secrets, tempfile, uuid, os, numpy\nprint(hasattr(builtins, "poison"), textwrap.dedent("1"), sys.modules.get("csv") == "poisoned", hasattr(numpy, "poison"), os.path.exists(tempfile.gettempdir() + "/poison"))\nprint("drawn", random.random(), numpy.random.random(), numpy.random.default_rng().random(), secrets.token_hex(8), uuid.uuid4())';

const a18 = forPython({
  id: "A18",
  class: "S5",
  what: "poison a kernel that waits, or the zygote through its fork; numbers that repeat",
  async probe(stage) {
    const args = [...JAILED, ...LIMITS, "--warm", "1"];
    const server = await stage.ownServer((env) => startLocal({ args, env }));
    const drawn = [];
    for (let round = 0; round < stage.times(6, 3); round += 1) {
      const session = await sessionIn(stage, server, "python", taste);
      const replies = [session.reply];
      await session.run(poison);
      if (round % 2) {
        await session.call("reset_session");
        replies.push(await session.run(taste));
      }
      for (const { text } of replies) {
        expect(text.includes("False 1 False False False"), `round ${round}: ${short(text)}`);
        drawn.push(...(/drawn (.*)/.exec(text)?.[1].split(" ") ?? []));
      }
      await session.close();
    }
    expect(new Set(drawn).size === drawn.length, `two kernels drew the same numbers: ${drawn.join()}`);
    // Its warm kernel comes and goes, which is not a leak.
    await server.stop();
    stage.forget(server);
    return `${drawn.length} numbers, all different`;
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), "python");
    await session.run(poison);
    const reply = await session.run(taste);
    proves(reply.text.includes("True poisoned True True True"), short(reply.text));
    return "the same kernel stays poisoned";
  },
});

/** A session's own packages: a folder that is read-only for the kernel and written by the installer. */
const x12 = forPython({
  id: "X12",
  class: "S5",
  what: "the overlay of packages: written to, replaced, with links that lead out",
  async probe(stage) {
    const server = await stage.server("auto");
    const session = await sessionIn(stage, server, "python");
    const packages = join(session.workspace, "../run/packages");
    const reply = await session.run(
      inPython(
        "python",
        'for act in (lambda: open("/run/packages/planted.py", "w"), lambda: os.symlink("/etc", "/run/packages/link"), lambda: os.rename("/run/packages", "/run/moved"), lambda: os.mkdir("/run/packages/x"), lambda: os.chmod("/run/packages", 0o777)):\n    try:\n        act()\n        print(GOT)\n    except OSError as error: print("DENIED", error)',
      ),
    );
    expect(!reply.text.includes("GOT-THROUGH"), short(reply.text));
    if (!existsSync(packages)) return "there is no overlay without packages";
    writeFileSync(join(packages, "left_by_installer.py"), "value = 42\n");
    const seen = await session.run("import left_by_installer\nprint(left_by_installer.value)");
    rmSync(join(packages, "left_by_installer.py"));
    expect(seen.text.includes("42"), `the overlay is not what the installer writes: ${short(seen.text)}`);
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("none"), "python");
    const folder = join(session.workspace, "../run");
    const reply = await session.run(
      inPython(
        "python",
        `os.mkdir(${q(join(folder, "planted"))})\nos.rmdir(${q(join(folder, "planted"))})\nprint(GOT)`,
      ),
    );
    proves(reply.text.includes("GOT-THROUGH"), short(reply.text));
    return "without walls the run folder can be written to";
  },
});

export default [...a15, ...a16, ...a17, ...a18, ...x12];
