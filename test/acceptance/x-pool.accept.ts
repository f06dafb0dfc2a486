/** Sessions spread over sandboxes, with the native tools. The same with the replaced system's tools: s3-*. */

import { describe, expect, test } from "vitest";
import { heldCell, releaseCells } from "../support/held-cells.ts";
import { freePort } from "../support/jupyter-server.ts";
import { startPoolProgram } from "../support/pool-program.ts";
import { startStdio, type TestClient, until } from "../support/program.ts";
import { answer, type BalancerStatus, startScripted, succeeded } from "./sandboxes.ts";
import { newSession, shared } from "./x-support.ts";

async function inFrontOf(urls: string[], args: string[] = [], env = {}) {
  const pool = urls.flatMap((url) => ["--pool-url", url]);
  const client = await startStdio({ args: ["--kernel", "pool", "--structured", ...pool, ...args], env });
  return { ...client, status: () => readStatus(client) };
}

async function readStatus(client: TestClient): Promise<BalancerStatus> {
  const { contents } = await client.raw.readResource({ uri: "balancer://status" });
  return JSON.parse((contents[0] as { text: string }).text);
}

describe("over real sandboxes", () => {
  const pool = shared((atEnd) => startPoolProgram({ count: 4, atEnd }));

  test("X-36 a session stays; a new one goes where least runs, then where nothing ran for longest, then in order", async () => {
    const client = await inFrontOf(pool().urls, [], pool().env);
    const ports = pool().ports.map(String);
    const busy = async () => {
      const status = await client.status();
      return ports.filter((port) => status.ports[port]?.status === "busy");
    };
    /** Runs a cell, and returns the sandbox that ran it. */
    const placeOf = async (args: Record<string, unknown>) => {
      const before = await client.status();
      const { execution } = await client.run("import time", args);
      const after = await client.status();
      const place = ports.find((port) => after.ports[port]?.last_used !== before.ports[port]?.last_used);
      return { place, session_id: execution.session_id };
    };
    const first = [];
    for (const _ of ports) first.push(await placeOf({}));
    expect(first.map(({ place }) => place)).toEqual(ports);
    const [a, b] = first.map(({ session_id }) => session_id);
    const long = [a, b].map((session_id) => client.run(heldCell, { session_id }));
    await until("two long cells to run", async () => (await busy()).length === 2);
    expect(await busy()).toEqual(ports.slice(0, 2));
    expect((await placeOf({})).place).toBe(ports[2]);
    expect((await placeOf({})).place).toBe(ports[3]);
    const queued = client.run("'in order'", { session_id: a });
    expect((await client.status()).ports[ports[0] ?? ""]?.active_sessions).toBe(1);
    await releaseCells(pool().dataDir, 2);
    for (const cell of long) expect((await cell).execution.status).toBe("ok");
    expect((await queued).structured?.result).toBe("'in order'");
    expect((await placeOf({ session_id: a })).place).toBe(ports[0]);
  });
});

describe("over sandboxes that follow a script", () => {
  test("X-37 a refusal is passed over, and what may have run is never sent twice", async () => {
    const closed = await freePort();
    const [one, other] = [await startScripted(), await startScripted()];
    const urls = [`http://127.0.0.1:${closed}`, one.url, other.url];
    const client = await inFrontOf(urls, ["--cool-down", "1s"]);
    const session_id = await newSession(client, "1");
    expect((await client.status()).ports[String(closed)]?.error_count).toBe(1);
    expect(one.calls).toHaveLength(1);

    for (const count of [1, 2, 3]) {
      one.behave(({ response }) => void (count === 2 ? response.destroy() : answer(response, "broken", 500)));
      const reply = await client.run("once()", { session_id });
      expect(reply.structured?.status).toBe("error");
      expect(reply.text).toContain("may have run");
      expect((await client.status()).ports[one.port]?.error_count).toBe(count);
    }
    expect(one.calls.filter(({ body }) => body.code === "once()")).toHaveLength(3);
    expect(other.calls).toEqual([]);
    expect((await client.status()).ports[one.port]?.status).toBe("error");

    // Out of rotation until its cool-down has passed; then one request tries it.
    one.behave(() => succeeded());
    const before = one.calls.length;
    expect((await client.run("1")).execution.status).toBe("ok");
    expect(one.calls).toHaveLength(before);
    await until("a trial", async () => {
      const { session_id } = (await client.run("1")).execution;
      await client.call("close_session", { session_id });
      return one.calls.length > before;
    });
    expect((await client.status()).ports[one.port]).toMatchObject({ status: "idle", error_count: 0 });
  });

  test("X-37 when all have failed, all are tried again", async () => {
    const [one, other] = [await startScripted(), await startScripted()];
    const client = await inFrontOf([one.url, other.url]);
    const sessions = [await newSession(client, "1"), await newSession(client, "1")];
    for (const sandbox of [one, other]) sandbox.behave(({ response }) => void answer(response, "broken", 500));
    for (const session_id of sessions) for (const _ of [1, 2, 3]) await client.run("1", { session_id });
    expect(Object.values((await client.status()).ports).map(({ status }) => status)).toEqual(["error", "error"]);
    for (const sandbox of [one, other]) sandbox.behave(() => succeeded());
    expect((await client.run("1")).execution.status).toBe("ok");
    expect(Object.values((await client.status()).ports).map(({ status }) => status)).toEqual(["idle", "idle"]);
  });

  test("X-38 a session that had to move gets a notice about its variables, and the status can be read", async () => {
    const [one, other] = [await startScripted(), await startScripted()];
    const client = await inFrontOf([one.url, other.url]);
    const session_id = await newSession(client, "x = 1");
    await one.stop();
    const moved = await client.run("x", { session_id });
    expect(other.calls).toHaveLength(1);
    expect(moved.text).toMatch(new RegExp(`Sandbox ${one.port}[\\s\\S]*variables from before are gone`));
    expect((await client.run("x", { session_id })).text).not.toContain("gone");
    let finish = (_: object) => {};
    const finished = new Promise<object>((resolve) => (finish = resolve));
    other.behave(() => finished);
    const cell = client.run("1", { session_id });
    await until("the cell to run", async () => (await client.status()).ports[other.port]?.status === "busy");
    finish(succeeded());
    expect((await cell).execution.status).toBe("ok");
    expect(await client.status()).toMatchObject({
      ports: { [one.port]: { error_count: 1 }, [other.port]: { status: "idle", active_sessions: 0 } },
      total_sessions: 1,
    });
  });
});
