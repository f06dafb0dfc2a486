// Cases of one form: many ways to one goal, tried in a kernel in each sandbox, and in a bare kernel as the control.
import { readFileSync } from "node:fs";
import { all, expect, Invalid, js, short, until } from "./case.mjs";

/** Returned by a way that succeeded without a flag to show; assembled at run time, so that no source contains it. */
export const GOT = '["GOT", "THROUGH"].join("-")';
const GOT_TEXT = "GOT-THROUGH";

/** JavaScript that runs code in a nested worker and returns the first message from it. */
export const subWorker = (code, options = "") => `return await new Promise((resolve) => {
  const worker = new Worker("data:text/javascript," + encodeURIComponent(${JSON.stringify(code)}), { type: "module"${options} });
  worker.onmessage = (event) => resolve(event.data);
  worker.onerror = (event) => { event.preventDefault(); resolve(event.message); };
})`;

/**
 * `ways` are JavaScript, or Python when they begin with `#py`; each has to succeed in the control. `hopes` are tried on
 * Cellwright only: they are known not to work in a bare kernel either, or would do harm there.
 *
 * A way succeeds if the flag or `GOT` comes out, if something reached the canary, or if `effect` says so.
 *
 * @param {Attempt} attempt
 *
 * @typedef {import("./stage.mjs").Stage} Stage
 * @typedef {(place: any) => Record<string, string>} Ways by name; what they use of the place is theirs
 * @typedef {object} Attempt
 * @property {string} id
 * @property {string} what
 * @property {(stage: Stage, place: any) => object} [prepare]
 * @property {Ways} ways
 * @property {Ways} [hopes]
 * @property {(place: any, session: { workspace: string }) => boolean} [effect]
 * @property {(stage: Stage) => string | undefined} [needs]
 */
export function breakOut({ id, what, prepare, ways, hopes = () => ({}), effect, needs }) {
  return {
    id,
    class: "S5",
    what,
    needs,
    async probe(stage) {
      const tryOut = async (wall) => {
        let tried = 0;
        const server = await stage.server(wall);
        const place = await placeOf(stage, server, prepare);
        const session = await stage.attacker(server);
        for (const [name, code] of Object.entries({ ...ways(place), ...hopes(place) })) {
          const hits = stage.canary.hits;
          const packets = privatePackets(stage);
          const reply = await session.run(asCell(code));
          const through =
            leaks(reply.whole, place) ||
            stage.canary.hits > hits ||
            (await effect?.(place, session)) ||
            (privatePackets(stage) > packets && (await sendsPackets(stage, () => session.run(asCell(code)))));
          expect(!through, `${name} got through with --jail ${wall}: ${short(reply.text, 200)}`);
          tried += 1;
        }
        const after = await session.run("6 * 7");
        expect(after.text.includes("42"), `the session does not answer any more: ${short(after.text)}`);
        return tried;
      };
      const tried = await all(stage.walls.map(tryOut));
      return `${tried.reduce((sum, count) => sum + count)} tries refused`;
    },
    async control(stage) {
      const server = await stage.server(stage.walls[0]);
      const place = await placeOf(stage, server, prepare);
      const entries = Object.entries(ways(place));
      for (const [name, code] of entries) {
        const hits = stage.canary.hits;
        const text = await stage.bare.run(asCell(code));
        // A process that was signalled takes a moment to exit.
        const isThrough = async () =>
          leaks(text, place) || stage.canary.hits > hits || (await effect?.(place, stage.bare));
        await until(`${name} to get through`, isThrough).catch(() => {
          throw new Invalid(`${name}: ${short(text, 200)}`);
        });
      }
      return `${entries.length} ways work`;
    },
  };
}

function asCell(code) {
  return code.startsWith("#py") ? code : js(code);
}

function leaks(text, { flag, secrets }) {
  return [flag, GOT_TEXT, ...secrets].some((secret) => text.includes(secret));
}

async function placeOf(stage, server, prepare) {
  const { flag, flagFile, folder, canary } = stage;
  const sessions = `${server.dataDir}/sessions`;
  const place = {
    flag,
    flagFile,
    folder,
    canary,
    sessions,
    serverPid: server.pid,
    neighbour: `${sessions}/${server.neighbour}`,
    /** Other secrets that must not come out. */
    secrets: [server.keep],
  };
  return { ...place, ...(await prepare?.(stage, place)) };
}

/** IPv6 occasionally sends packets by itself; packets of the attack appear each time. */
async function sendsPackets(stage, attack) {
  for (let turn = 0; turn < 2; turn += 1) {
    const before = privatePackets(stage);
    await attack();
    if (privatePackets(stage) === before) return false;
  }
  return true;
}

/** Packets on the loopback device, if no other program uses it: stdio servers send none. */
function privatePackets(stage) {
  if (!stage.privateNetwork) return 0;
  const line = /^\s*lo:(.*)$/m.exec(readFileSync("/proc/net/dev", "utf8"))?.[1] ?? "";
  return Number(line.trim().split(/\s+/)[1]);
}
