import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { Sandbox, SandboxFailure } from "../../../src/kernels/pool/client.ts";
import { createPoolProvider } from "../../../src/kernels/pool/provider.ts";
import { createLog } from "../../../src/log.ts";
import { failure, run } from "../../contracts/kernel.ts";
import { type PoolProgram, startPoolProgram } from "../../support/pool-program.ts";
import { isAlive, startHttp, type TestClient, until } from "../../support/program.ts";
import { startResettingProxy } from "../../support/resetting-proxy.ts";
import { rounds } from "../../support/rounds.ts";

const SECONDS = rounds(60, 10);
/** Few enough that their kernels are mostly running cells, not being restarted. */
const SESSIONS = 4;
const KILL_EVERY_MS = 3_000;

/** What a cell may report about its kernel. */
const LOSS = /variables from before are gone|state was lost|its variables are gone/;
const UNKNOWN = /may have run|was shut down while the cell ran/;

test.each([
  { end: "killed", signal: "SIGKILL" },
  { end: "drained and ended", signal: "SIGTERM" },
] as const)(
  `four sandboxes under load for ${SECONDS} s, one $end and restarted every ${KILL_EVERY_MS / 1000} s`,
  async ({ signal }) => {
    const pool = await startPoolProgram({ count: 4 });
    const args = ["--kernel", "pool", "--cool-down", "2s", ...pool.urls.flatMap((url) => ["--pool-url", url])];
    const front = await startHttp({ args, env: pool.env });
    const client = await front.client();
    const drain = async (port: number, draining: boolean) => {
      if (signal === "SIGKILL") return;
      const body = JSON.stringify({ backend: String(port), draining });
      const headers = { "content-type": "application/json", ...front.headers };
      expect((await fetch(new URL("/drain", front.url), { method: "POST", headers, body })).status).toBe(200);
    };
    const names = Array.from({ length: SESSIONS }, (_, index) => `s${index}`);
    const sessions = await Promise.all(names.map((session_name) => client.run("n = 0", { session_name })));
    const over = new AbortController();
    const killing = endInTurn(pool, { signal, drain, over: over.signal });
    const ends = performance.now() + SECONDS * 1000;
    const tallies = await Promise.all(
      sessions.map(({ execution }) => countUp(client, execution.session_id, () => performance.now() < ends)),
    );
    over.abort();
    const kills = await killing;

    const all = {
      wrong: tallies.flatMap(({ wrong }) => wrong),
      ok: tallies.flatMap(({ ok }) => ok),
      notRun: tallies.flatMap(({ notRun }) => notRun),
      unknown: tallies.flatMap(({ unknown }) => unknown),
      losses: tallies.reduce((sum, { losses }) => sum + losses, 0),
    };
    const runs = runsOf(pool);
    const times = (id: string) => runs.filter((each) => each === id).length;
    console.log(
      `${all.ok.length} cells ran, ${all.unknown.length} of unknown fate (${all.unknown.filter(times).length} of these ran), ` +
        `${all.notRun.length} not run; ${all.losses} losses told; ${kills} kills`,
    );
    expect(all.wrong, "wrong results and silent losses").toEqual([]);
    expect(
      [...new Set(runs)].filter((id) => times(id) > 1),
      "cells that ran twice",
    ).toEqual([]);
    expect(
      all.ok.filter((id) => times(id) !== 1),
      "cells that were said to have run and did not",
    ).toEqual([]);
    expect(
      all.notRun.filter((id) => times(id) !== 0),
      "cells that were said not to have run and did",
    ).toEqual([]);
    // Otherwise the test has shown nothing.
    expect(kills).toBeGreaterThanOrEqual(Math.floor((SECONDS * 1000) / KILL_EVERY_MS / 3));
    expect(all.losses).toBeGreaterThan(0);
    expect(all.ok.length).toBeGreaterThan(SESSIONS);
  },
  (SECONDS + 120) * 1000,
);

interface Tally {
  ok: string[];
  unknown: string[];
  notRun: string[];
  wrong: string[];
  losses: number;
}

/** One session that counts its own cells in a variable, and checks the count. */
async function countUp(client: TestClient, session_id: string, goesOn: () => boolean): Promise<Tally> {
  const tally: Tally = { ok: [], unknown: [], notRun: [], wrong: [], losses: 0 };
  let count = 0;
  /** Cells since the last known count that may have counted. */
  let uncertain = 0;
  for (let cell = 1; goesOn(); cell++) {
    const id = `${session_id}-${cell}`;
    const code = [
      `n = globals().get("n", 0) + 1`,
      `with open("ran.txt", "a") as file: file.write("${id}\\n")`,
      `print("<${id}", n, sum(range(${cell})), sep=":", end=">")`,
    ].join("\n");
    const reply = await client.run(code, { session_id });
    const [, shownId, shownCount, sum] = /<([^:>]+):(\d+):(\d+)>/.exec(reply.text) ?? [];
    const isLoss = LOSS.test(reply.text);
    if (isLoss) tally.losses++;
    if (reply.execution?.status === "ok") {
      const isRight = shownId === id && Number(sum) === (cell * (cell - 1)) / 2;
      const now = Number(shownCount);
      const isExpected = isLoss ? now === 1 : now > count && now <= count + 1 + uncertain;
      if (!isRight || !isExpected) {
        tally.wrong.push(`${id}: after ${count} (${uncertain} uncertain) came ${JSON.stringify(reply.text)}`);
      }
      tally.ok.push(id);
      count = now;
      uncertain = 0;
    } else if (UNKNOWN.test(reply.text)) {
      tally.unknown.push(id);
      // Its variables may be those of a fresh kernel, if the reply says so.
      if (isLoss) count = 0;
      uncertain++;
    } else if (/cannot be reached|was not run/.test(reply.text)) {
      tally.notRun.push(id);
      if (isLoss) [count, uncertain] = [0, 0];
    } else tally.wrong.push(`${id}: ${JSON.stringify(reply.text)}`);
  }
  return tally;
}

interface Ending {
  signal: NodeJS.Signals;
  drain(port: number, draining: boolean): Promise<void>;
  over: AbortSignal;
}

/** Kills one sandbox after another, and returns how many. `cellwright pool` restarts each. */
async function endInTurn(pool: PoolProgram, { signal, drain, over }: Ending): Promise<number> {
  let ended = 0;
  for (let turn = 0; ; turn++) {
    try {
      await delay(KILL_EVERY_MS, undefined, { signal: over });
    } catch {
      return ended;
    }
    const port = pool.ports[turn % pool.ports.length] ?? 0;
    const victim = found(() => pool.backend(port));
    if (victim === undefined) continue;
    await drain(port, true);
    process.kill(victim, signal);
    ended++;
    await until("the end of it", () => !isAlive(victim));
    await drain(port, false);
  }
}

/** The ids of all cells that ran on any sandbox, once per run, from what they wrote to disk. */
function runsOf(pool: PoolProgram): string[] {
  return pool.ports.flatMap((port) => {
    const sessions = join(pool.dataDir, "pool", String(port), "sessions");
    return readdirSync(sessions).flatMap((id) => {
      const file = join(sessions, id, "workspace", "ran.txt");
      return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    });
  });
}

test("a connection that breaks after the cell began: a client that always retries runs it twice, ours does not", async () => {
  const pool = await startPoolProgram({ count: 2 });
  const proxies = await Promise.all(pool.ports.map(startResettingProxy));
  const urls = proxies.map(({ url }) => url);
  const code = (id: string) => `with open("ran.txt", "a") as file: file.write("${id}\\n")`;
  const timesRun = (id: string) => runsOf(pool).filter((each) => each === id).length;

  await retryAlways(urls, pool.token, { session_id: "control", code: code("control"), timeout: 60 });
  expect(timesRun("control")).toBe(2);

  const provider = await createPoolProvider({ urls, token: pool.token, coolDownMs: 1000, log: createLog("silent") });
  onTestFinished(() => provider.dispose());
  const kernel = await provider.start(
    { language: "python" },
    { sessionId: "ours", workspaceDir: "", runDir: "", signal: new AbortController().signal },
  );
  const events = await run(kernel, code("ours"), { timeoutMs: 60_000 });
  expect(failure(events)?.message).toMatch(UNKNOWN);
  expect(timesRun("ours")).toBe(1);
  expect(proxies.map(({ resets }) => resets()).reduce((one, other) => one + other)).toBe(3);
});

/** A wrong client, as the control: it retries every failure on the next sandbox. */
async function retryAlways(
  urls: string[],
  token: string | undefined,
  request: { session_id: string; code: string; timeout: number },
) {
  for (const url of urls) {
    const sandbox = new Sandbox(url, new URL(url), { token });
    try {
      return await sandbox.run(await sandbox.connect(), request, { limitMs: 60_000 });
    } catch (error) {
      if (!(error instanceof SandboxFailure)) throw error;
    }
  }
  return undefined;
}

function found<T>(find: () => T): T | undefined {
  try {
    return find();
  } catch {
    return undefined;
  }
}
