/** What survives a restart, and what expires, with the native tools. */

import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startHttp, startStdio, temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, stateOf } from "./x-support.ts";

const replaying = [...onLocal, "--restore", "replay"];

describeWith("localKernels", "persistence", () => {
  test("X-19 state is back after each of three restarts, and restoring adds nothing to the history", async () => {
    const dataDir = temporaryDataDir();
    let client = await startStdio({ args: replaying, dataDir });
    const session_id = await newSession(client, "kept = 41");
    const journal = join(dataDir, "sessions", session_id, "journal.ndjson");
    const begun = () =>
      readFileSync(journal, "utf8")
        .split("\n")
        .filter((line) => line.includes('"begin"')).length;
    expect(begun()).toBe(1);
    for (const restart of [1, 2, 3]) {
      await client.close();
      client = await startStdio({ args: replaying, dataDir });
      const reply = await client.run("kept += 1\nkept", { session_id });
      expect(reply.structured).toMatchObject({ status: "ok", result: String(41 + restart) });
      expect(begun()).toBe(1 + restart);
    }
  }, 120_000);

  test("X-20 a cell that fails when it is run again is reported, and a magic is run again as one cell", async () => {
    const dataDir = temporaryDataDir();
    const before = await startStdio({ args: replaying, dataDir });
    const session_id = await newSession(before, "a = 1");
    await before.run("%%bash\necho magic > made-by-bash.txt", { session_id });
    await before.run("_ = open('input.txt', 'w').write('5')", { session_id });
    await before.close();
    const made = join(dataDir, "sessions", session_id, "workspace/made-by-bash.txt");
    unlinkSync(made);
    const after = await startStdio({ args: replaying, dataDir });
    expect((await after.run("a, open('made-by-bash.txt').read()", { session_id })).structured?.result).toBe(
      "(1, 'magic\\n')",
    );
    await after.run("b = open('input.txt').read()\nimport os; os.remove('input.txt')", { session_id });
    // Now a cell reads a file that a later one has removed: it cannot be replayed.
    await after.call("write_file", { session_id, path: "once.txt", content: "7" });
    await after.run("c = open('once.txt').read()", { session_id });
    await after.call("delete_file", { session_id, path: "once.txt" });
    await after.close();
    const again = await startStdio({ args: replaying, dataDir });
    const reply = await again.run("a, b", { session_id });
    expect(reply.structured).toMatchObject({ status: "ok", result: "(1, '5')" });
    expect(reply.text).toMatch(/FileNotFoundError.*once\.txt/);
  }, 120_000);

  test("X-20 after a crash of the server the live kernel is taken over: an append is not repeated", async () => {
    const dataDir = temporaryDataDir();
    const first = await startHttp({ args: replaying, dataDir });
    const session_id = await newSession(await first.client(), "a = 1\n_ = open('log.txt', 'a').write('once\\n')");
    await first.stop("SIGKILL");
    const second = await startHttp({ args: replaying, dataDir });
    const reply = await (await second.client()).run("a, open('log.txt').read()", { session_id });
    expect(reply.structured).toMatchObject({ status: "ok", result: "(1, 'once\\n')", notices: [] });
  });

  test("X-21 an idle session ends at its time, a busy one does not, and with lifetime 0 none does", async () => {
    const client = await startStdio({ args: [...onLocal, "--session-ttl", "1s"] });
    const endless = await startStdio({ args: [...onLocal, "--session-ttl", "0"] });
    const kept = await newSession(endless, "x = 1");
    const busy = await newSession(client, "import os, time");
    const code = "while not os.path.exists('go'): time.sleep(0.02)\n'kept'";
    await client.run(code, { session_id: busy, wait_s: 0 });
    // Two lifetimes, one after the other.
    for (const _ of [1, 2]) {
      const idle = await newSession(client, "x = 1");
      await until(
        "the idle session to lose its kernel",
        async () => (await stateOf(client, idle)) === "asleep",
        30_000,
      );
    }
    expect(await stateOf(client, busy)).toBe("busy");
    expect(await stateOf(endless, kept)).toBe("idle");
    writeFileSync(join(client.dataDir, "sessions", busy, "workspace/go"), "");
    expect((await client.call("wait", { session_id: busy })).structured).toMatchObject({
      status: "ok",
      result: "'kept'",
      notices: [],
    });
    expect((await endless.run("x", { session_id: kept })).structured).toMatchObject({ result: "1", notices: [] });
    expect(existsSync(join(endless.dataDir, "sessions", kept, "run"))).toBe(true);
  });
});
