// What a kernel leaves for the next server: its journal and its sockets, under the control of user code. Crashes.
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { all, expect, protects, proves, short, timed, until } from "./case.mjs";
import { asFake } from "./local-forgery.mjs";
import { forPython, LIMITS, patience, startLocal } from "./local-stage.mjs";
import { MAX_PEAK_MB } from "./peak.mjs";
import { descendants, isAlive, rssMb } from "./server.mjs";
import { JAILED } from "./tier.mjs";

const open =
  'journal = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd) and os.readlink("/proc/self/fd/" + fd).endswith("/journal"))\nheartbeat = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd) and os.readlink("/proc/self/fd/" + fd).endswith("/heartbeat"))\ndef keep(frames):\n    os.write(journal, struct.pack(">I", len(frames)))\n    for one in frames: os.write(journal, struct.pack(">I", len(one)) + one)\ntime.sleep(0.3)\nos.ftruncate(journal, 0)\n';

/** Done in a cell that keeps running, so that the next server has something to adopt. */
const attacks = {
  "many forged messages":
    'keep([b"x", *signed("execute_input", {"code": "forged", "execution_count": 5})])\none = [b"x", *signed("stream", {"name": "stdout", "text": "forged-line"})]\nbody = struct.pack(">I", len(one)) + b"".join(struct.pack(">I", len(part)) + part for part in one)\nos.write(journal, body * 60_000)',
  "as large as it gets": "try:\n    while True: os.write(journal, bytes(4_000_000))\nexcept OSError: pass",
  garbage: "os.write(journal, os.urandom(1_000_000))",
  "sockets that never answer": 'for n in (1, 2, 3, 4): take_place(f"s-{n}", None, lambda connection: time.sleep(60))',
  "no sense":
    'for kind, content in (("execute_input", {"code": 5, "execution_count": "x"}), ("status", {"execution_state": "idle"}), ("error", {}), ("display_data", {"data": {"__proto__": 1}})): keep([b"x", *signed(kind, content)])',
  "lengths beyond all":
    'os.write(journal, struct.pack(">I", 2**32 - 1) * 100)\nos.write(journal, struct.pack(">II", 7, 2**31))',
  "a sparse one": "os.ftruncate(journal, 60_000_000)",
  "JSON that unfolds":
    'keep([b"x", *signed("execute_input", {"code": "forged", "execution_count": 5})])\nkeep([b"x", *signed("display_data", raw=b\'{"data":{"application/json":[\' + b"{}," * 6_000_000 + b"{}]}}")])',
  "a heartbeat of its own": 'os.utime(f"/proc/self/fd/{heartbeat}", (2**33, 2**33))',
  "sockets that are gone": 'for n in (1, 2, 3, 4): os.unlink(f"{SOCKETS}/s-{n}")',
  "it stops itself": "import signal\nos.kill(os.getpid(), signal.SIGSTOP)",
};

const x15 = forPython({
  id: "X15",
  class: "A2*",
  what: "after a crash: a forged, filled, broken journal, sockets gone, a kernel that stands still",
  async probe(stage) {
    const { second, sessions, kernels, neighbour, before } = await crash(stage, stage.some(attacks, 5));
    const { value: kept, ms } = await timed(() => second.run("keep", { session_id: neighbour }));
    protects(kept.text.includes("1234"), `the neighbour's state is lost: ${short(kept.text)}`);
    protects(ms < 10_000 * patience(), `the neighbour waited ${Math.round(ms)} ms`);
    for (const [name, id] of sessions) {
      const { value: reply, ms: took } = await timed(() => second.run("6 * 7", { session_id: id, timeout_s: 3 }));
      expect(took < 20_000 * patience(), `${name}: the next cell took ${Math.round(took)} ms`);
      expect(!/error: internal/.test(reply.text), `${name}: ${short(reply.text)}`);
      await second.call("reset_session", { session_id: id });
      const again = await second.run("6 * 7", { session_id: id, timeout_s: 20 });
      expect(again.text.includes("42"), `${name}: not usable again: ${short(again.text)}`);
    }
    const grown = rssMb(second.pid) - before;
    protects(grown < MAX_PEAK_MB, `the server that took over grew by ${Math.round(grown)} MB`);
    await second.stop();
    await until("kernels of the crashed server to be gone", () => !kernels.some(isAlive), 10_000);
    return `${sessions.length} kernels taken over`;
  },
  async control(stage) {
    const { second, sessions } = await crash(stage, [["nothing", "0"]]);
    const [[, session_id]] = sessions;
    const reply = await second.run("still", { session_id });
    proves(reply.text.includes("5678"), short(reply.text));
    await second.stop();
    return "a kernel that did nothing is taken over";
  },
});

/** A server with a session for each attack is killed, and another one started on the same folder. */
async function crash(stage, chosen) {
  const args = [...JAILED, ...LIMITS];
  const first = await startLocal({ args });
  stage.after(() => rmSync(first.dataDir, { recursive: true, force: true }));
  const neighbour = (await first.run("keep = 1234")).session;
  const sessions = await all(
    chosen.map(async ([name, code]) => {
      const { session } = await first.run("still = 5678");
      const attack = asFake(
        `${open}try:\n${code.replaceAll(/^/gm, "    ")}\nfinally: open("done", "w").close()\ntime.sleep(3)`,
      );
      first.run(attack, { session_id: session, timeout_s: 120 }, { timeout: 120_000 }).catch(() => {});
      const stays = /stops/.test(name) ? undefined : join(first.dataDir, "sessions", session, "workspace/done");
      if (stays) await until(`${name} to be done`, () => statSync(stays, { throwIfNoEntry: false }), 30_000);
      return [name, session];
    }),
  );
  const kernels = descendants(first.pid).filter((pid) => pid !== first.pid);
  process.kill(first.pid, "SIGKILL");
  await until("the server's end", () => !isAlive(first.pid));
  const { value: second, ms } = await timed(() => startLocal({ args, dataDir: first.dataDir }));
  stage.after(() => second.stop());
  const { ms: listMs } = await timed(() => second.call("list_sessions", {}, { timeout: 60_000 }));
  protects(ms + listMs < 15_000 * patience(), `the next server was there after ${Math.round(ms + listMs)} ms`);
  return { second, sessions, kernels, neighbour, before: rssMb(second.pid) };
}

export default x15;
