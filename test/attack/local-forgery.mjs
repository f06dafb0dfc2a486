// C44 and C45 for local kernels and bash: forged messages, and an impersonated kernel.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, inLanes, protects, proves, short, timed } from "./case.mjs";
import { runsAgain } from "./local-bombs.mjs";
import { forPython, inPython, patience, sessionIn, usedServer } from "./local-stage.mjs";
import { MAX_PEAK_MB, peakOf } from "./peak.mjs";

const q = JSON.stringify;
const fake = readFileSync(new URL("./local-fake.py", import.meta.url), "utf8");
export const asFake = (code) => inPython("python", `${fake}\n${code}`);

/** Accepted at most for the cell that sends them. */
const lies = {
  "for other cells":
    'for about in ({}, {"msg_id": "other"}, {"msg_id": 5}, {"msg_id": None}, {"msg_id": "__proto__"}, {"msg_id": ""}):\n    say("stream", {"name": "stdout", "text": "forged-line"}, about)\n    say("status", {"execution_state": "idle"}, about)',
  "early end":
    'reply({"status": "ok", "execution_count": 77})\nsay("status", {"execution_state": "idle"})\ntime.sleep(0.5)',
  "two ends":
    'for _ in range(3):\n    reply({"status": "ok", "execution_count": 77})\n    say("status", {"execution_state": "idle"})',
  "no sense":
    'for kind, content in [("stream", {}), ("stream", {"name": "stdin", "text": "forged-line"}), ("stream", {"name": "stdout", "text": 5}), ("display_data", {"data": None}), ("display_data", {"data": {"image/png": 5}}), ("display_data", {"data": {"image/png": "no base64"}}), ("display_data", {"data": {"image/svg+xml": "<svg onload=alert(1)>"}, "transient": {"display_id": {}}}), ("update_display_data", {"data": {}, "transient": 3}), ("error", {"ename": 1}), ("error", {"ename": "E", "evalue": "", "traceback": [{"toString": 1}]}), ("execute_result", {"data": []}), ("status", {"execution_state": {}}), ("clear_output", {"wait": []}), ("__proto__", {}), ("comm_open", {}), ("shutdown_reply", {"restart": True}), ("no such kind", {"x": 1})]:\n    say(kind, content)',
  "a reply without sense":
    'reply({"status": {}, "execution_count": [], "payload": [{"source": "page", "data": {"text/plain": {"a": 1}}}, 5, None, {"source": "set_next_input"}]})',
  pollution:
    'say("display_data", None, raw=b\'{"data":{"__proto__":{"polluted":"POLLUTED"},"constructor/x":{"prototype":{"polluted":"POLLUTED"}},"text/plain":"shown"},"__proto__":{"transient":{"display_id":"x"}}}\')\nfor name in ("__proto__", "constructor", "toString"):\n    say("display_data", {"data": {"text/plain": "a"}, "transient": {"display_id": name}})\n    say("update_display_data", {"data": {"text/plain": "b"}, "transient": {"display_id": name}})',
  "unsolicited answers":
    'kernel.control_handlers["cellwright_request"] = lambda stream, ident, request: kernel.session.send(stream, "cellwright_reply", {"variables": [{"name": "forged-line" * 100_000, "type": 5}, None, 7, {"name": "forged", "type": "x", "summary": "y" * 30_000_000, "size": {}}]}, request, ident)',
  "a question":
    'kernel.session.send(kernel.stdin_socket, "input_request", {"prompt": "forged-line", "password": True}, parent, ident=b"x")',
};
const garbage = {
  "wrong signatures":
    'for _ in range(200):\n    frames = signed("stream", {"name": "stdout", "text": "forged-line"})\n    frames[1] = b"0" * 64\n    send_raw(frames)',
  "no message":
    'for frames in ([b""], [b"<IDS|MSG>"], [b"x", b"<IDS|MSG>", b"y"], [os.urandom(5000)], [b"<IDS|MSG>"] * 500, [b""] * 3000):\n    send_raw(frames)',
  "no JSON": 'for raw in (b"{", b"[]", b"null", b"5", b"\\xff\\xfe", b\'{"data":\'):\n    say("display_data", raw=raw)',
  "deep JSON":
    'for depth in (1_000, 100_000, 1_000_000):\n    say("display_data", raw=b\'{"data":{"application/json":\' + b"[" * depth + b"]" * depth + b"}}")',
  "a thread that goes on":
    'def go():\n    for _ in range(2_000):\n        say("stream", {"name": "stdout", "text": "late"})\nthreading.Thread(target=go).start()',
};

const c44 = forPython({
  id: "C44",
  class: "S5",
  what: "forged messages with the kernel's own key: for others, without sense, early ends",
  async probe(stage) {
    const server = await usedServer(stage);
    const before = await server.admin.run("1", { session_id: server.neighbour });
    await inLanes(Object.entries({ ...lies, ...garbage }), 3, async ([name, code]) => {
      const session = await sessionIn(stage, server, "python");
      const { ms } = await timed(() => session.run(asFake(code), { timeout_s: 5 }));
      expect(ms < 12_000 * patience(), `${name}: the cell ended after ${Math.round(ms)} ms`);
      for (const word of ["own-1", "own-2"]) {
        const { text, status } = await session.run(`print("${word}")`, { timeout_s: 10 });
        expect(text.includes(word) || status === "kernel_died", `${name}: ${short(text)}`);
        expect(!text.includes("forged-line"), `${name}: a later cell shows a forged line`);
      }
      const variables = await session.call("list_variables");
      expect(variables.whole.length < 1_500_000 && !/error: internal/.test(variables.text), `${name}: list_variables`);
      await runsAgain(session, name);
      const listed = await server.admin.call("list_sessions");
      protects(!listed.whole.includes("POLLUTED"), `${name}: the server is polluted`);
      await session.close();
    });
    const after = await server.admin.run("1", { session_id: server.neighbour });
    protects(after.execution.execution_count > before.execution.execution_count, "the neighbour heard of it");
    protects(!after.whole.includes("forged-line") && !after.whole.includes("POLLUTED"), "the neighbour heard of it");
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), "python");
    const { text } = await session.run(asFake('say("stream", {"name": "stdout", "text": "for" + "ged-own"})'));
    proves(text.includes("forged-own"), short(text));
    return "a forged message of its own cell is shown";
  },
});

/** All stop at 600 MB, so that a missing limit does no harm. */
const MANY = "600";
const fakes = {
  "a frame of 600 MB": `take_place("s-2", b"PUB", lambda connection: (connection.sendall(long_frame(${MANY}_000_000, 2)), [connection.sendall(bytes(1_000_000)) for _ in range(${MANY})]))`,
  "a message of frames without end": `take_place("s-2", b"PUB", lambda connection: [connection.sendall(long_frame(1_000_000, 3) + bytes(1_000_000)) for _ in range(${MANY})])`,
  "many on shell":
    'take_place("s-1", b"ROUTER", lambda connection: [connection.sendall(b"\\0\\x05hello" * 100_000) for _ in range(300)])',
  "large signed displays":
    'def flood():\n    raw = b\'{"data":{"text/plain":"\' + b"x" * 20_000_000 + b\'"}}\'\n    for _ in range(30): say("display_data", raw=raw)\nflood()',
  "JSON that unfolds":
    'raw = b\'{"data":{"application/json":[\' + b"{}," * 15_000_000 + b"{}]}}"\nfor _ in range(3): say("display_data", raw=raw)',
  "no protocol":
    'take_place("s-2", None, lambda connection: [connection.sendall(os.urandom(1_000_000)) for _ in range(100)])',
  silence:
    'take_place("s-1", None, lambda connection: time.sleep(60))\ntake_place("s-2", b"PUB", lambda connection: time.sleep(60))',
  "frames without end on control": `take_place("s-4", b"ROUTER", lambda connection: [connection.sendall(long_frame(1_000_000, 3) + bytes(1_000_000)) for _ in range(${MANY})])`,
  "large signed ones":
    'def flood():\n    text = "x" * 20_000_000\n    for _ in range(30): say("stream", {"name": "stdout", "text": text})\nflood()',
  "no protocol on shell":
    'take_place("s-1", None, lambda connection: [connection.sendall(os.urandom(1_000_000)) for _ in range(100)])',
  "a frame of a terabyte": `take_place("s-2", b"PUB", lambda connection: (connection.sendall(long_frame(2**40, 2)), [connection.sendall(bytes(1_000_000)) for _ in range(${MANY})]))`,
  "a frame of 600 MB on shell": `take_place("s-1", b"ROUTER", lambda connection: (connection.sendall(long_frame(${MANY}_000_000, 2)), [connection.sendall(bytes(1_000_000)) for _ in range(${MANY})]))`,
  "many unsigned":
    'take_place("s-2", b"PUB", lambda connection: [connection.sendall(b"\\0\\x05hello" * 100_000) for _ in range(300)])',
};

const c45 = forPython({
  id: "C45",
  class: "A2*",
  what: "a fake kernel: no protocol, endless frames and messages, unfolding JSON",
  async probe(stage) {
    const problems = [];
    let hurt = false;
    for (const [name, code] of stage.some(fakes, 9)) {
      const server = await usedServer(stage);
      const session = await sessionIn(stage, server, "python");
      const { value: ms, grownMb } = await peakOf(server, async () => {
        const cell = await timed(() => session.run(asFake(`${code}\ntime.sleep(1)`), { timeout_s: 2 }));
        await server.admin.call("list_sessions", {}, { timeout: 20_000 });
        return cell.ms;
      }).catch((error) => ({ value: Number.NaN, grownMb: Number.POSITIVE_INFINITY, error }));
      // V8 collects this kind of garbage late; only that it does so matters.
      const isHeld = grownMb < (name.includes("large signed") ? 2 : 1) * MAX_PEAK_MB;
      hurt ||= !isHeld;
      if (!isHeld) problems.push(`${name}: the server grew by ${Math.round(grownMb)} MB`);
      if (!(ms < 12_000 * patience())) problems.push(`${name}: the cell ended after ${Math.round(ms)} ms`);
      await session.call("reset_session").catch(() => {});
      await runsAgain(session, name).catch((error) => problems.push(error.message));
      await session.close().catch(() => {});
      // The remains of one attack must not count for the next.
      const broken = await stage.endCase();
      hurt ||= broken.length > 0;
      problems.push(...broken.map((error) => `${name}: ${error.message}`));
    }
    (hurt ? protects : expect)(problems.length === 0, problems.join("; "));
  },
  async control(stage) {
    const session = await sessionIn(stage, await stage.server("auto"), "python");
    const heard =
      'heard = []\ntake_place("s-2", b"PUB", lambda connection: heard.append(connection.recv(64)))\ntime.sleep(1)\nopen("heard", "w").write(str(heard))';
    await session.run(asFake(heard), { timeout_s: 3 });
    const text = readFileSync(join(session.workspace, "heard"), "utf8");
    proves(text.includes("xff"), short(text));
    return "the server does speak with the fake";
  },
});

/** Things put in place of the kernel's sockets and connection file. */
const replacements = (place) => ({
  "links to the neighbour's sockets": `for n in (1, 2, 3, 4):\n    os.unlink(f"{SOCKETS}/s-{n}")\n    os.symlink(f"${place.neighbour}/run/sockets/s-{n}", f"{SOCKETS}/s-{n}")\n    drop_connections(f"s-{n}")`,
  "a link to another program's socket": `os.unlink(SOCKETS + "/s-1")\nos.symlink(${q(place.canary)}, SOCKETS + "/s-1")\ndrop_connections("s-1")`,
  folders:
    'for n in (1, 2, 3, 4):\n    os.unlink(f"{SOCKETS}/s-{n}")\n    os.makedirs(f"{SOCKETS}/s-{n}/deep/er")\n    drop_connections(f"s-{n}")',
  FIFOs:
    'for n in (1, 2):\n    os.unlink(f"{SOCKETS}/s-{n}")\n    os.mkfifo(f"{SOCKETS}/s-{n}")\n    drop_connections(f"s-{n}")',
  "a link for a connection file": `os.unlink(SOCKETS + "/connection.json")\nos.symlink(${q(place.file)}, SOCKETS + "/connection.json")\nos.symlink(${q(place.folder)}, SOCKETS + "/folder")`,
  "closed folders":
    'os.makedirs(SOCKETS + "/closed/in")\nos.chmod(SOCKETS + "/closed/in", 0)\nos.chmod(SOCKETS + "/closed", 0)\nos.chmod("/run/cellwright", 0o500)',
});

const x13 = forPython({
  id: "X13",
  class: "S5",
  what: "sockets and connection file replaced: by links out, to neighbours, by folders, FIFOs",
  async probe(stage) {
    const server = await stage.server("auto");
    const file = join(stage.folder, "precious");
    const place = {
      neighbour: join(server.dataDir, "sessions", server.neighbour),
      canary: stage.canary.socketPath,
      file,
      folder: stage.folder,
    };
    for (const [name, code] of Object.entries(replacements(place))) {
      writeFileSync(file, stage.flag);
      const session = await sessionIn(stage, server, "python");
      await session.run(asFake(`${code}\ntime.sleep(0.5)`), { timeout_s: 2 });
      const heard = await session.run("keep", { timeout_s: 1 });
      expect(!heard.whole.includes(server.keep), `${name}: the neighbour answers`);
      await session.call("reset_session");
      await runsAgain(session, name);
      const folder = join(session.workspace, "..");
      await session.close();
      expect(!existsSync(folder), `${name}: the session's folder is left`);
      expect(existsSync(file) && readFileSync(file, "utf8") === stage.flag, `${name}: a file outside was changed`);
      const { text } = await server.admin.run("keep", { session_id: server.neighbour });
      protects(text.includes(server.keep), `${name}: the neighbour lost its variable`);
    }
  },
  control: c45[0].control,
});

export default [...c44, ...c45, ...x13];
