import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AtEnd, clientKinds, startHttp, startStdio, type TestClient, until } from "../support/program.ts";

/** What every client must be able to do, on both transports. */
const transports: Record<string, (kind: (typeof clientKinds)[number], atEnd: AtEnd) => Promise<TestClient>> = {
  stdio: (kind, atEnd) => startStdio({ kind, atEnd }),
  http: async (kind, atEnd) => (await startHttp({ atEnd })).client(kind),
};

for (const [transport, connect] of Object.entries(transports)) {
  describe.each(clientKinds)(`%s client over ${transport}`, (kind) => {
    const cleanUps: Parameters<AtEnd>[0][] = [];
    let client: TestClient;
    beforeAll(async () => {
      client = await connect(kind, (cleanUp) => cleanUps.push(cleanUp));
    });
    afterAll(async () => {
      for (const cleanUp of cleanUps.reverse()) await cleanUp();
    });

    test("keeps variables between cells, and sessions apart", async () => {
      const first = await client.run("x = 20 + 1");
      expect(first.execution).toMatchObject({ status: "ok", execution_count: 1 });
      const { session_id } = first.execution;
      expect(session_id).toMatch(/^[\w-]{16}$/);
      expect((await client.run("x * 2", { session_id })).text).toContain("42");
      const other = await client.run("x");
      expect(other.execution.status).toBe("error");
      expect(other.text).toContain("NameError");
      expect(other.isError).toBe(false);
    });

    test("lists, interrupts and uses another session while a cell runs, on the same connection", async () => {
      const { session_id } = (await client.run("kept = 1")).execution;
      const other = (await client.run("y = 2")).execution.session_id;
      const loop = "print('in the loop', flush=True)\nopen('begun', 'w').write('yes')\nwhile True: pass";
      const endless = client.run(loop, { session_id });
      const begun = { session_id, path: "begun" };
      await until("the loop", async () => (await client.call("read_file", begun)).text.includes("yes"));
      expect((await client.call("list_sessions")).text).toContain(session_id);
      expect((await client.run("y + 1", { session_id: other })).text).toContain("3");
      expect((await client.call("write_file", { session_id, path: "a.txt", content: "hello" })).isError).toBe(false);
      expect((await client.call("read_file", { session_id, path: "a.txt" })).text).toContain("hello");
      const interrupted = await client.call("interrupt", { session_id });
      expect(interrupted.execution.status).toBe("interrupted");
      expect((await endless).execution.status).toBe("interrupted");
      expect((await endless).text).toContain("in the loop");
      expect((await client.run("kept", { session_id })).text).toContain("1");
    });

    test("a cancelled call stops its cell, and the session goes on", async () => {
      const { session_id } = (await client.run("kept = 1")).execution;
      const cancel = new AbortController();
      const call = client.call("execute_code", { session_id, code: "while True: pass" }, { signal: cancel.signal });
      call.catch(() => {});
      await untilRunning(client, session_id);
      cancel.abort();
      await expect(call).rejects.toThrow();
      const next = await client.run("kept", { session_id });
      expect(next.execution.status).toBe("ok");
      expect(next.text).toContain("1");
      const waited = await client.call("list_sessions");
      expect(waited.text).not.toContain("busy");
    });

    test("bad input is answered with what was expected", async () => {
      for (const [args, expected] of [
        [{}, "code"],
        [{ code: 5 }, "code"],
        [{ code: "1", sesion_id: "x" }, "session_id"],
        [{ code: "1", timeout_s: -1 }, "timeout_s"],
        [{ code: "1", session_id: "no-such-session" }, "list_sessions"],
        [{ code: "1", variables: { "not a name": 1 } }, "not a name"],
        [{ code: "1", images: ["%%%"] }, "images[0]"],
      ] as const) {
        const reply = await client.call("execute_code", args);
        expect(reply.isError).toBe(true);
        expect(reply.text).toContain(expected);
      }
      expect((await client.run("1 + 1")).text).toContain("2");
    });
  });
}

async function untilRunning(client: TestClient, session_id: string): Promise<void> {
  const status = async () => (await client.call("wait", { session_id, wait_s: 0 })).execution.status;
  await until("the cell to run", async () => (await status()) === "running");
}
