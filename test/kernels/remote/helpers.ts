import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Call } from "../../../src/kernels/remote/files/helper.ts";
import { ServerHelper } from "../../../src/kernels/remote/files/helper.ts";
import { ANSWER, helperSource } from "../../../src/kernels/remote/files/helper-source.ts";
import { valueIn } from "../../../src/kernels/remote/server/refusal.ts";
import { JupyterServer } from "../../../src/kernels/remote/server/server.ts";
import { createLog, type Log } from "../../../src/log.ts";
import {
  type JupyterServerSettings,
  startJupyterServer,
  type TestJupyterServer,
} from "../../support/jupyter-server.ts";

export const quiet: Log = createLog("silent");

export interface PlainHelperSettings {
  python?: string;
  home: string;
  /** Minimum age of a file that counts as at rest. */
  tickNs?: number;
}

/** The helper's own code in a plain Python process, without a Jupyter server. */
export function startPlainHelper({ python = "python3", home, tickNs }: PlainHelperSettings) {
  const loop = `${helperSource()}
${tickNs === undefined ? "" : `sys.modules["helper_files"].TICK_NS = ${tickNs}`}
for line in sys.stdin:
    print(${ANSWER}(line).text, flush=True)
`;
  const child = spawn(python, ["-I", "-c", loop], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env.PATH, HOME: home, LANG: "C.UTF-8" },
  });
  const waiting: ((line: string) => void)[] = [];
  createInterface(child.stdout).on("line", (line) => waiting.shift()?.(line));
  const ask = (operation: string, args: object, again: boolean) => {
    child.stdin.write(`${JSON.stringify({ operation, again, arguments: args })}\n`);
    return new Promise<string>((resolve) => waiting.push(resolve));
  };
  const callAs =
    (again: boolean): Call =>
    async (operation, args, options) => {
      const data = options?.bytes && { data: Buffer.from(options.bytes).toString("base64") };
      const answer = await ask(operation, { ...args, ...data }, again);
      return valueIn(answer, { operation, server: "here" }) as never;
    };
  return {
    pid: child.pid ?? 0,
    call: callAs(false),
    /** Like a caller that cannot know whether it was done before. */
    callAgain: callAs(true),
    async stop() {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

export interface HelperOnServer {
  started: TestJupyterServer;
  server: JupyterServer;
  helper: ServerHelper;
  stop(): Promise<void>;
}

/** The helper in a kernel of a real server. */
export async function startHelperOnServer(
  python: string,
  settings: JupyterServerSettings = {},
  log: Log = quiet,
): Promise<HelperOnServer> {
  const started = await startJupyterServer(python, settings);
  const server = new JupyterServer({ url: started.url, token: started.token, log });
  const helper = new ServerHelper(server, log);
  return {
    started,
    server,
    helper,
    async stop() {
      await helper.dispose();
      await started.stop();
    },
  };
}

/** Each Jupyter server that must work, as requirements of a suite. */
export const serverRequirements = [
  { requirement: "jupyterServer", name: "jupyter_server 2" },
  { requirement: "debianJupyterServer", name: "Debian's jupyter_server 1" },
] as const;
