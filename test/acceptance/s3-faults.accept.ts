/** What the load balancer does on the wire and when sandboxes fail: over HTTP, with sandboxes that follow a script. */

import { describe, expect, test } from "vitest";
import { freePort } from "../support/jupyter-server.ts";
import { until } from "../support/program.ts";
import { answer, type Balancer, type ScriptedSandbox, startBalancer, startScripted, succeeded } from "./sandboxes.ts";

const fails: Parameters<ScriptedSandbox["behave"]>[0] = ({ response }) => {
  answer(response, "the sandbox is broken", 500);
  return undefined;
};

async function two(args: string[] = []) {
  const [one, other] = [await startScripted(), await startScripted()];
  return { one, other, client: await startBalancer([one.url, other.url], { args }) };
}

/** This many consecutive failures take a sandbox out of rotation, whichever sessions they hit. */
async function putOut(client: Balancer, sandbox: ScriptedSandbox, session_id: string): Promise<void> {
  sandbox.behave(fails);
  for (const count of [1, 2, 3]) {
    expect((await client.python("1", { session_id })).status).toBe("error");
    expect((await client.status()).ports[sandbox.port]?.error_count).toBe(count);
  }
  expect((await client.status()).ports[sandbox.port]?.status).toBe("error");
}

describe("on the wire", () => {
  test("S3-24 a call without images is one POST with session, code and time limit, and nothing else", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    await client.python("print('Hello')", { session_id: "user123_task_20251204", timeout: 7 });
    expect(sandbox.calls).toMatchObject([{ path: "/jupyter_sandbox" }]);
    expect(sandbox.calls[0]?.body).toEqual({ session_id: "user123_task_20251204", code: "print('Hello')", timeout: 7 });
    expect(sandbox.cleared).toEqual([]);
  });

  test("S3-14 without a time limit it is 30 s, and an answer is waited for ten seconds longer than the limit", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    await client.python("1");
    expect(sandbox.calls[0]?.body.timeout).toBe(30);
    sandbox.behave(() => undefined);
    const began = performance.now();
    const late = await client.python("1", { timeout: 1 });
    const waitedMs = performance.now() - began;
    expect(late).toMatchObject({ status: "error", error: "Connection timeout after 1s" });
    expect(waitedMs).toBeGreaterThan(10_900);
    expect(waitedMs).toBeLessThan(16_000);
    expect(sandbox.calls).toHaveLength(2);
  });

  test("example: a failure as the document prints it", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    const output = { stdout: "", stderr: "HTTPStatusError: 500 Internal Server Error\n", images: [] };
    sandbox.behave(() => ({ status: "error", error: "Connection timeout after 30s", output }));
    expect((await client.python("1")).blocks).toEqual([
      "**Execution Status**: error\n",
      "**stderr:**\n```\nHTTPStatusError: 500 Internal Server Error\n\n```",
      "**Error**: Connection timeout after 30s",
    ]);
    sandbox.behave(() => succeeded("Mean: 0.523\nSum: 5.234\n"));
    expect((await client.python("1")).blocks).toEqual([
      "**Execution Status**: success\n**Time**: 0.156s\n",
      "**stdout:**\n```\nMean: 0.523\nSum: 5.234\n\n```",
    ]);
  });
});

describe("when sandboxes fail", () => {
  test("S3-28 a sandbox that refuses connections is passed over in the same call, and that is counted", async () => {
    const closed = await freePort();
    const sandbox = await startScripted();
    const client = await startBalancer([`http://127.0.0.1:${closed}`, sandbox.url]);
    expect(await client.python("1")).toMatchObject({ status: "success", stdout: `on ${sandbox.port}\n` });
    expect((await client.status()).ports[String(closed)]).toMatchObject({ error_count: 1, status: "idle" });
    expect(sandbox.calls).toHaveLength(1);
    await sandbox.stop();
    expect(await client.python("1")).toMatchObject({ status: "error", error: "All connection attempts failed" });
  });

  test("S3-29 code that may have run is not sent again: an answer of 500, a connection that is closed", async () => {
    const { one, other, client } = await two();
    one.behave(fails);
    const broken = await client.python("1");
    expect(broken.status).toBe("error");
    expect(broken.error).toContain(`Server error '500 Internal Server Error' for url '${one.url}/jupyter_sandbox'`);
    expect((await client.status()).ports[one.port]).toMatchObject({ error_count: 1 });
    one.behave(({ response }) => void response.destroy());
    const closed = await client.python("1");
    expect(closed).toMatchObject({ status: "error", error: "Server disconnected without sending a response." });
    expect((await client.status()).ports[one.port]).toMatchObject({ error_count: 2 });
    expect([one.calls.length, other.calls.length]).toEqual([2, 0]);
  });

  test("S3-30 failures count when they come in a row, and a late success of before does not make up for them", async () => {
    const { one, other, client } = await two(["--cool-down", "1s"]);
    const stateOf = async () => (await client.status()).ports[one.port];
    for (const behaviour of [fails, fails, () => succeeded(), fails, fails]) {
      one.behave(behaviour);
      await client.python("1", { session_id: "first" });
      expect((await stateOf())?.status).toBe("idle");
    }
    one.behave(() => succeeded());
    await client.python("1", { session_id: "first" });
    expect(await stateOf()).toMatchObject({ error_count: 0 });

    let finish: (reply: object) => void = () => {};
    const held = new Promise<object>((resolve) => {
      finish = resolve;
    });
    one.behave(() => held);
    const slow = client.python("1", { session_id: "first" });
    await until("the slow cell to run", () => one.calls.at(-1)?.body.session_id === "first" && one.calls.length > 6);
    // The next session goes to the other sandbox; with a cell on each, the one after it to the least recently used.
    other.behave(() => new Promise(() => {}));
    client.python("1", { session_id: "a", timeout: 60 }).catch(() => {});
    await until("the other to be busy", () => other.calls.length === 1);
    await putOut(client, one, "second");
    finish(succeeded());
    expect((await slow).status).toBe("success");
    expect(await stateOf()).toMatchObject({ status: "error", error_count: 3 });

    other.behave(() => succeeded(`on ${other.port}\n`));
    const before = one.calls.length;
    expect(await client.python("1", { session_id: "third" })).toMatchObject({ stdout: `on ${other.port}\n` });
    expect(one.calls).toHaveLength(before);

    // After the cool-down one request is the trial; others meanwhile go elsewhere.
    const trial = new Promise<object>((resolve) => {
      finish = resolve;
    });
    one.behave(() => trial);
    const asked: Promise<unknown>[] = [];
    await until("a trial", async () => {
      const reply = client.python("1", { session_id: `new ${asked.length}` });
      asked.push(reply);
      await Promise.race([reply, until("a trial", () => one.calls.length > before)]);
      return one.calls.length > before;
    });
    expect(await client.python("1", { session_id: "meanwhile" })).toMatchObject({ stdout: `on ${other.port}\n` });
    expect(one.calls).toHaveLength(before + 1);
    finish(succeeded());
    await Promise.all(asked);
    expect(await stateOf()).toMatchObject({ status: "idle", error_count: 0 });
  });

  test("S3-31 a session that has to move gets a notice, if it had state to lose", async () => {
    const { one, other, client } = await two();
    const session_id = "it's mine";
    expect((await client.python("x = 1", { session_id })).blocks).toHaveLength(2);
    await putOut(client, one, session_id);
    const moved = await client.python("x", { session_id });
    expect(moved.blocks).toEqual([
      "**Execution Status**: success\n**Time**: 0.156s\n",
      `**Notice**: session '${session_id}' moved from port ${one.port} to port ${other.port}; earlier variables are lost.`,
      `**stdout:**\n\`\`\`\non ${other.port}\n\n\`\`\``,
    ]);
    expect((await client.python("x", { session_id })).blocks).toHaveLength(2);

    const fresh = await two();
    await putOut(fresh.client, fresh.one, "stateless");
    const silent = await fresh.client.python("1", { session_id: "stateless" });
    expect(silent).toMatchObject({ status: "success", stdout: `on ${fresh.other.port}\n` });
    expect(silent.blocks.join("")).not.toContain("Notice");
  });

  test("S3-31 a session that returns to a sandbox does not find variables that were reported as lost", async () => {
    const { one, other, client } = await two();
    await client.python("x = 1");
    await putOut(client, one, "s");
    await client.python("1");
    one.behave(() => succeeded(`on ${one.port}\n`));
    await other.stop();
    const back = await client.python("1");
    expect(back.blocks[1]).toBe(
      `**Notice**: session 's' moved from port ${other.port} to port ${one.port}; earlier variables are lost.`,
    );
    expect(one.cleared).toEqual(["s"]);
  });

  test("S3-32 a session whose sandbox is out with all others stays there, with its variables", async () => {
    const { one, other, client } = await two();
    await client.python("x = 1", { session_id: "a" });
    await client.python("1", { session_id: "b" });
    await putOut(client, other, "b");
    await putOut(client, one, "a");
    one.behave(() => succeeded(`on ${one.port}\n`));
    const { blocks, stdout } = await client.python("x", { session_id: "a" });
    expect(stdout).toBe(`on ${one.port}\n`);
    expect(blocks).toHaveLength(2);
  });

  test("S3-32 when all are out, all are tried again", async () => {
    const { one, other, client } = await two();
    await putOut(client, one, "a");
    await putOut(client, other, "b");
    one.behave(() => succeeded(`on ${one.port}\n`));
    other.behave(() => succeeded(`on ${other.port}\n`));
    expect((await client.python("1", { session_id: "c" })).status).toBe("success");
    for (const port of [one.port, other.port]) {
      expect((await client.status()).ports[port]).toMatchObject({ status: "idle", error_count: 0 });
    }
  });

  test("S3-34 an answer that makes no sense is an error, and the server lives", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    const senseless: (object | string)[] = [
      { status: "success", output: "text" },
      "<html><body>It works!</body></html>",
      { output: { stdout: "x", stderr: "", images: [] } },
      { status: "success", output: { stdout: "", stderr: "", images: [7] } },
      ["success"],
      "",
    ];
    for (const said of senseless) {
      sandbox.behave(({ response }) => void answer(response, said));
      const reply = await client.python("1");
      expect({ said, status: reply.status, isError: reply.isError }).toEqual({ said, status: "error", isError: false });
      expect(reply.error).toBeTruthy();
      sandbox.behave(() => succeeded());
      expect((await client.python("1")).status).toBe("success");
    }
  });
});
