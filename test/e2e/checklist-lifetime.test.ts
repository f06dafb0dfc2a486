/** The lifetime of sessions and servers, on local kernels: cases of both systems; each name begins with its case. */

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { processesOf } from "../support/processes.ts";
import { startStdio, type TestClient, temporaryDataDir, until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith, hasNamespaces } from "../support/requirements.ts";

const local = ["--kernel", "local", "--env", dirname(dirname(testPython("managed"))), "--structured"];

describeWith("localKernels", "the ends of sessions on local kernels", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let client: TestClient & { dataDir: string };
  let stored: string[];
  beforeAll(async () => {
    const dataDir = temporaryDataDir(atEnd);
    const before = await startStdio({ args: local, dataDir, atEnd });
    const replies = await Promise.all([1, 2].map(() => before.run("x = 1\n_ = open('f.txt', 'w').write('mine')")));
    stored = replies.map(({ execution }) => execution.session_id);
    await before.close();
    const args = [...local, "--session-ttl", "2s", "--restore", "replay"];
    client = await startStdio({ args, dataDir, atEnd });
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });
  const stateOf = async (id: string) => {
    const { structured } = await client.call("list_sessions");
    const sessions = structured?.sessions as { session_id: string; state: string }[];
    return sessions.find((session) => session.session_id === id)?.state;
  };

  test("S0-26 a session is cleared with its files, a live one and one that is only on disk", async () => {
    const live = (await client.run("1")).execution.session_id;
    for (const session_id of [live, stored[0]]) {
      const folder = join(client.dataDir, "sessions", String(session_id));
      expect(existsSync(folder)).toBe(true);
      expect((await client.call("close_session", { session_id, delete_files: true })).isError).toBe(false);
      expect(existsSync(folder)).toBe(false);
      expect((await client.call("close_session", { session_id, delete_files: true })).isError).toBe(true);
      expect((await client.run("1", { session_id })).text).toContain("session_not_found");
    }
  });

  test("S0-34 an idle session's kernel is ended, and a busy one's never", async () => {
    const busy = (await client.run("kept = 41")).execution.session_id;
    const code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nkept + 1";
    await client.run(code, { session_id: busy, wait_s: 0 });
    // Two lifetimes, one after the other: longer than any other wait.
    for (const _ of [1, 2]) {
      const idle = (await client.run("1")).execution.session_id;
      await until("the idle session to lose its kernel", async () => (await stateOf(idle)) === "asleep", 30_000);
    }
    expect(await stateOf(busy)).toBe("busy");
    await client.call("write_file", { session_id: busy, path: "go", content: "" });
    const ended = await client.call("wait", { session_id: busy });
    expect(ended.structured).toMatchObject({ status: "ok", result: "42", notices: [] });
  });

  test("S0-35 a stored session is restored on next use, and IPython's own syntax works in it", async () => {
    const session_id = stored[1];
    expect((await client.run("x, open('f.txt').read()", { session_id })).structured?.result).toBe("(1, 'mine')");
    expect((await client.run("!echo hi", { session_id })).structured?.stdout).toBe("hi\n");
    expect((await client.run("lines = !echo hi\nlines[0]", { session_id })).structured?.result).toBe("'hi'");
    expect((await client.run("%%bash\necho magic", { session_id })).structured?.stdout).toBe("magic\n");
    expect((await client.run("%pwd", { session_id })).structured?.result).toMatch(
      hasNamespaces() ? /^'\/workspace'$/ : /\/workspace'$/,
    );
  });

  test("S2-35 an end of the server leaves no kernel, after sessions have expired too", async () => {
    const session_id = (await client.run("1")).execution.session_id;
    await until("the session to lose its kernel", async () => (await stateOf(session_id)) === "asleep", 30_000);
    await client.run("2");
    expect(processesOf(client.dataDir).length).toBeGreaterThan(2);
    await client.close();
    await until("all processes to be gone", () => processesOf(client.dataDir).length === 0);
  });
});
