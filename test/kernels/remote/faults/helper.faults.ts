import { randomBytes, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { heard, type JupyterChannel } from "../../../../src/kernels/protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../../../../src/kernels/protocol/message.ts";
import { ServerHelper } from "../../../../src/kernels/remote/files/helper.ts";
import { HelperKernel, HelperLost } from "../../../../src/kernels/remote/files/helper-kernel.ts";
import { openRemoteWorkspace } from "../../../../src/kernels/remote/files/workspace.ts";
import { JupyterServer } from "../../../../src/kernels/remote/server/server.ts";
import { createLog } from "../../../../src/log.ts";
import { freePort, startJupyterServer } from "../../../support/jupyter-server.ts";
import { describeWith } from "../../../support/requirements.ts";
import { type HelperOnServer, quiet, serverRequirements, startHelperOnServer } from "../helpers.ts";

const maxBytes = 30_000_000;
const soon = () => AbortSignal.timeout(120_000);

/** The process of a kernel, whose command line contains the name of its connection file. */
function processOf(kernelId: string): number {
  const pid = readdirSync("/proc").find((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(`kernel-${kernelId}.json`);
    } catch {
      return false;
    }
  });
  if (!pid) throw new Error(`Kernel ${kernelId} has no process.`);
  return Number(pid);
}

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `the helper on ${name}`, (python) => {
    let here: HelperOnServer;
    const extra: ServerHelper[] = [];
    beforeAll(async () => {
      here = await startHelperOnServer(python, { args: ["--KernelRestarter.time_to_dead=0.5"] });
    });
    afterEach(async () => {
      for (const helper of extra.splice(0)) await helper.dispose();
    });
    afterAll(() => here.stop());

    const workspaceOf = (helper: ServerHelper) =>
      openRemoteWorkspace({ call: helper.call, notebooksFolder: "notebooks", sessionId: randomUUID() });

    /** A separate helper, and the id of its current kernel. */
    function another(settings: { silenceMs?: number } = {}) {
      const kernels: string[] = [];
      const ended: string[] = [];
      const helper = new ServerHelper(here.server, quiet, {
        ...settings,
        onStart: (id) => kernels.push(id),
        onEnd: (id) => ended.push(id),
      });
      extra.push(helper);
      return { helper, kernels, ended };
    }

    test("works while a session's own kernel is busy", async () => {
      const kernelId = await here.server.createKernel(soon());
      const channel = await here.server.connect(kernelId, { wsSession: randomUUID(), signal: soon() });
      const code = "import time\nprint('begun')\nwhile True: time.sleep(0.1)";
      const content = { code, silent: false, store_history: true };
      const begun = heard(channel, soon(), ({ header }) => header.msg_type === "stream" || undefined);
      await channel.send(createMessage("shell", "execute_request", content, { session: randomUUID() }));
      await begun;
      const workspace = workspaceOf(here.helper);
      await workspace.write("a.txt", Buffer.from("x"));
      expect((await workspace.list(".")).entries).toHaveLength(1);
      // It was running until now.
      const replied = heard(channel, soon(), ({ header, content: reply }) =>
        header.msg_type === "execute_reply" ? reply : undefined,
      );
      await here.server.interruptKernel(kernelId);
      expect(await replied).toMatchObject({ status: "error", ename: "KeyboardInterrupt" });
      await channel.close();
      await here.server.deleteKernel(kernelId);
    });

    test("is started again after its death, and leaves no kernel behind", async () => {
      const before = await here.server.kernels(soon());
      const { helper, kernels, ended } = another();
      const workspace = workspaceOf(helper);
      await workspace.write("a.txt", Buffer.from("before"));
      process.kill(processOf(kernels[0] ?? ""), "SIGKILL");
      expect(Buffer.from((await workspace.read("a.txt", { maxBytes })).bytes).toString()).toBe("before");
      expect(kernels).toHaveLength(2);
      await helper.dispose();
      expect(ended.sort()).toEqual(kernels.sort());
      expect(await here.server.kernels(soon())).toEqual(before);
      await expect(workspace.list(".")).rejects.toMatchObject({ code: "server_unreachable" });
    });

    test("that dies in the middle of a large file delivers it whole, or says that it could not", async () => {
      const { helper, kernels } = another();
      const workspace = workspaceOf(helper);
      await workspace.write("a.bin", Buffer.from("old"));
      const bytes = randomBytes(8_000_000);
      const writing = workspace.write("a.bin", bytes);
      process.kill(processOf(kernels[0] ?? ""), "SIGKILL");
      await writing;
      const back = (await workspace.read("a.bin", { maxBytes })).bytes;
      expect(Buffer.from(back).equals(bytes)).toBe(true);
      expect((await workspace.list(".")).entries.map(({ path }) => path)).toEqual(["a.bin"]);
      expect(kernels).toHaveLength(2);
    });

    test("that says nothing any more is replaced", async () => {
      const { helper, kernels } = another({ silenceMs: 1_500 });
      const workspace = workspaceOf(helper);
      await workspace.write("a.txt", Buffer.from("x"));
      const pid = processOf(kernels[0] ?? "");
      process.kill(pid, "SIGSTOP");
      try {
        await workspace.write("a.txt", Buffer.from("y"));
        expect(kernels).toHaveLength(2);
        expect(Buffer.from((await workspace.read("a.txt", { maxBytes })).bytes).toString()).toBe("y");
      } finally {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // The server has ended it.
        }
      }
    });

    test("is one, however many ask at the same time, and answers each what it asked", async () => {
      const { helper, kernels } = another();
      const workspace = workspaceOf(helper);
      const names = Array.from({ length: 40 }, (_, index) => `file-${index}`);
      await Promise.all(names.map((file) => workspace.write(file, Buffer.from(file))));
      const texts = await Promise.all(
        names.map(async (file) => Buffer.from((await workspace.read(file, { maxBytes })).bytes).toString()),
      );
      expect(texts).toEqual(names);
      expect(kernels).toHaveLength(1);
    });

    test("releases callers that stop waiting, and reports bugs as such", async () => {
      await here.helper.call("scan", { notebooks: "notebooks", session: "s1" });
      const signal = AbortSignal.abort(new Error("enough"));
      await expect(here.helper.call("scan", { notebooks: "n", session: "s1" }, { signal })).rejects.toThrow("enough");
      await expect(here.helper.call("no_such_thing", {})).rejects.toMatchObject({ code: "internal" });
    });

    test("has no secret in what it says, and works when its server is back", async () => {
      const home = await mkdtemp(join(tmpdir(), "cw-helper-"));
      const port = await freePort();
      const token = "secret-token-0123456789";
      const lines: string[] = [];
      const log = createLog("debug", (line) => lines.push(line));
      const server = new JupyterServer({ url: `http://127.0.0.1:${port}`, token, log });
      const helper = new ServerHelper(server, log);
      const away: Error = await helper.call<never>("scan", { notebooks: "n", session: "s" }).catch((error) => error);
      expect(away).toMatchObject({ code: "server_unreachable", message: expect.stringContaining(String(port)) });
      const started = await startJupyterServer(python, { home, port, token });
      try {
        expect(await helper.call("scan", { notebooks: "n", session: "s" })).toMatchObject({ complete: true });
        await helper.dispose();
        expect(await server.kernels(soon())).toEqual([]);
        expect(`${away.stack} ${lines.join()}`).not.toContain(token);
      } finally {
        await started.stop();
        await rm(home, { recursive: true, force: true });
      }
    });
  });
}

describe("a helper kernel", () => {
  /** A channel whose other end is the test. */
  function channelByHand() {
    let hear: (message: JupyterMessage) => void = () => {};
    const sent: JupyterMessage[] = [];
    let reconnected = () => {};
    let close = (_: { reason: string }) => {};
    const closed = new Promise<{ reason: string }>((resolve) => {
      close = resolve;
    });
    const channel: JupyterChannel & { onReconnect(listener: () => void): void } = {
      send: async (message) => void sent.push(message),
      listen: (listener) => {
        hear = listener;
      },
      closed,
      close: async () => close({ reason: "closed" }),
      onReconnect: (listener) => {
        reconnected = listener;
      },
    };
    const answer = (index: number, text: string) => {
      const content = { status: "ok", user_expressions: { answer: { status: "ok", data: { "text/plain": text } } } };
      const parent = sent[index]?.header ?? {};
      hear(createMessage("shell", "execute_reply", content, { session: "s", parent }));
    };
    const say = (state: string, parent = {}) =>
      hear(createMessage("iopub", "status", { execution_state: state }, { session: "s", parent }));
    return { channel, sent, answer, say, reconnect: () => reconnected() };
  }
  const question = { code: "", expression: "first" };
  const again = { code: "", expression: "again" };

  test("is asked again after a connection that broke, and either answer will do", async () => {
    for (const answered of [0, 1]) {
      const { channel, sent, answer, reconnect } = channelByHand();
      const kernel = new HelperKernel(channel, { silenceMs: 60_000 });
      const asking = kernel.ask(question, again);
      reconnect();
      const asked = sent.map(({ content }) => (content.user_expressions as { answer: string }).answer);
      expect(asked).toEqual(["first", "again"]);
      answer(answered, "the answer");
      expect(await asking).toBe("the answer");
      answer(1 - answered, "too late");
      reconnect();
      expect(sent).toHaveLength(2);
    }
  });

  test("is lost when its server says that it is replaced, but not when it is busy", async () => {
    const { channel, say } = channelByHand();
    const kernel = new HelperKernel(channel, { silenceMs: 60_000 });
    const asking = kernel.ask(question, again);
    say("busy");
    say("restarting", { msg_id: "somebody's" });
    say("restarting");
    await expect(asking).rejects.toBeInstanceOf(HelperLost);
    await expect(kernel.ask(question, again)).rejects.toBeInstanceOf(HelperLost);
    expect(await kernel.lost).toMatch(/died/);
  });
});
