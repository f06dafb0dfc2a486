import { spawn } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Dealer, Subscriber } from "zeromq";

/** A plain ipykernel over ZeroMQ with a minimal client: the baseline cost of a cell. */
export async function startRawKernel(python) {
  const folder = mkdtempSync(join(tmpdir(), "cw-raw-"));
  const key = randomUUID();
  const ip = join(folder, "s");
  const ports = { shell_port: 1, iopub_port: 2, stdin_port: 3, control_port: 4, hb_port: 5 };
  const file = join(folder, "connection.json");
  writeFileSync(file, JSON.stringify({ ...ports, ip, key, transport: "ipc", signature_scheme: "hmac-sha256" }));
  const child = spawn(python, ["-m", "ipykernel_launcher", "-f", file], { stdio: "ignore" });
  const options = { linger: 0, reconnectInterval: 5 };
  const shell = new Dealer(options);
  const iopub = new Subscriber(options);
  iopub.connect(`ipc://${ip}-2`);
  iopub.subscribe();
  shell.connect(`ipc://${ip}-1`);

  const send = async (msg_type, content) => {
    const msg_id = randomUUID();
    const header = { msg_id, session: "bench", username: "", date: new Date().toISOString(), msg_type, version: "5.3" };
    const parts = [header, {}, {}, content].map((part) => Buffer.from(JSON.stringify(part)));
    const hmac = createHmac("sha256", key);
    for (const part of parts) hmac.update(part);
    await shell.send(["<IDS|MSG>", hmac.digest("hex"), ...parts]);
    return msg_id;
  };
  const over = async (id) => {
    await shell.receive();
    for (;;) {
      const frames = await iopub.receive();
      const at = frames.findIndex((frame) => frame.equals(Buffer.from("<IDS|MSG>")));
      const isIdle = frames[at + 5].includes('"idle"');
      if (isIdle && JSON.parse(frames[at + 3]).msg_id === id) return;
    }
  };
  const request = {
    silent: false,
    store_history: true,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: false,
  };
  return {
    run: async (code) => over(await send("execute_request", { ...request, code })),
    close() {
      child.kill("SIGKILL");
      shell.close();
      iopub.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
