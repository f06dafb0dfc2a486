/** How the load balancer spreads work over four real sandboxes on the usual ports. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { heldCell, releaseCells } from "../support/held-cells.ts";
import { until } from "../support/program.ts";
import { type Balancer, type BalancerStatus, startBalancer, startPool } from "./sandboxes.ts";
import { shared } from "./x-support.ts";

const ports = ["18901", "18902", "18903", "18904"];

describe("four sandboxes", () => {
  const pool = shared((atEnd) => startPool("18901-18904", ["--kernel", "wasm"], atEnd));

  /** Without --pool-url: the default ports. */
  const start = (env = {}) => startBalancer([], { env: { ...pool().env, ...env } });
  const running = (status: BalancerStatus) => ports.filter((port) => status.ports[port]?.status === "busy");

  /** Runs a cell, and returns the sandbox that ran it. */
  async function placeOf(client: Balancer, session_id: string): Promise<string | undefined> {
    const before = await client.status();
    expect((await client.python("1", { session_id })).status).toBe("success");
    const after = await client.status();
    return ports.find((port) => after.ports[port]?.last_used !== before.ports[port]?.last_used);
  }

  test("S3-25 new sessions go around", async () => {
    const client = await start();
    const places: unknown[] = [];
    for (const session_id of ["a", "b", "c", "d", "e"]) places.push(await placeOf(client, session_id));
    expect(places).toEqual([...ports, "18901"]);
    expect((await client.status()).total_sessions).toBe(5);
  });

  test("S3-26 a session stays where it is, however busy that is, and its cells run in order", async () => {
    const client = await start();
    await client.python("x = ['first']", { session_id: "mine" });
    for (const session_id of ["b", "c", "d", "beside"]) await client.python("1", { session_id });
    const beside = client.python(heldCell, { session_id: "beside" });
    await until("18901 to be busy", async () => running(await client.status()).includes("18901"));
    const slow = client.python(`${heldCell}\nx.append('slow')`, { session_id: "mine" });
    const quick = client.python("x.append('quick')\nprint(x)", { session_id: "mine" });
    await until("both sessions to run", async () => (await client.status()).ports["18901"]?.active_sessions === 2);
    await releaseCells(pool().dataDir, 2);
    await beside;
    expect((await quick).stdout).toBe("['first', 'slow', 'quick']\n");
    expect((await slow).status).toBe("success");
  });

  test("S3-26 two cells of a session at once count as one active session until both have ended", async () => {
    const client = await start();
    const cells = [1, 2].map(() => client.python("import time\ntime.sleep(1)", { session_id: "both" }));
    let ended = 0;
    for (const cell of cells) void cell.then(() => ended++);
    const seen = new Set<number>();
    await until("both to end", async () => {
      const count = (await client.status()).ports["18901"]?.active_sessions ?? 0;
      if (ended < 2) seen.add(count);
      return ended === 2;
    });
    expect(Math.max(...seen)).toBe(1);
    expect((await client.status()).ports["18901"]?.active_sessions).toBe(0);
  });

  test("S3-27 new sessions go where least is running", async () => {
    const client = await start();
    const long = ["long 1", "long 2"].map((session_id) =>
      client.python(heldCell, { session_id }).then(({ status }) => status),
    );
    await until("both long cells to run", async () => running(await client.status()).length === 2);
    expect(running(await client.status())).toEqual(["18901", "18902"]);
    expect(await placeOf(client, "new 1")).toBe("18903");
    expect(await placeOf(client, "new 2")).toBe("18904");
    await releaseCells(pool().dataDir, 2);
    expect(await Promise.all(long)).toEqual(["success", "success"]);
  });

  test("S3-33 the status tells what is, before, during and after a call, and forgets after an hour", async ({
    onTestFinished,
  }) => {
    const folder = mkdtempSync(join(tmpdir(), "cellwright-clock-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const clock = join(folder, "ahead-ms");
    writeFileSync(clock, "0");
    const shift = pathToFileURL(join(import.meta.dirname, "shifted-clock.mjs")).href;
    const client = await start({ NODE_OPTIONS: `--import=${shift}`, TEST_CLOCK_FILE: clock });
    const unused = { status: "idle", active_sessions: 0, error_count: 0, last_used: "never" };
    expect(await client.status()).toEqual({
      ports: Object.fromEntries(ports.map((port) => [port, unused])),
      total_sessions: 0,
    });
    const cell = client.python(heldCell, { session_id: "seen" });
    await until("the cell to run", async () => running(await client.status()).length === 1);
    const during = await client.status();
    expect(during.ports["18901"]).toMatchObject({ status: "busy", active_sessions: 1, error_count: 0 });
    expect(during.total_sessions).toBe(1);
    await releaseCells(pool().dataDir, 1);
    await cell;
    const after = (await client.status()).ports["18901"];
    expect(after).toMatchObject({ status: "idle", active_sessions: 0 });
    expect(new Date(after?.last_used ?? "").toISOString()).toBe(after?.last_used);
    await client.python("1", { session_id: "another" });
    expect((await client.status()).total_sessions).toBe(2);
    writeFileSync(clock, String(59 * 60_000));
    expect((await client.status()).total_sessions).toBe(2);
    await client.python("1", { session_id: "another" });
    writeFileSync(clock, String(61 * 60_000));
    expect((await client.status()).total_sessions).toBe(1);
  });
});
