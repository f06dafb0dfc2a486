import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import { freePorts } from "./free-ports.ts";
import { type AtEnd, descendants, madeToken, programEnv, programPath, temporaryDataDir } from "./program.ts";

export interface PoolProgram {
  ports: number[];
  urls: string[];
  /** The token of the sandboxes; undefined with --insecure. */
  token: string | undefined;
  /** For a Cellwright in front of them that has another data folder. */
  env: Record<string, string>;
  pid: number;
  dataDir: string;
  stderr(): string;
  /** The process that serves a port now. */
  backend(port: number): number;
  stop(): Promise<number | null>;
}

/** Starts `cellwright pool` on free ports, and waits until all of them are served. */
export async function startPoolProgram({
  count,
  args = ["--kernel", "wasm"],
  atEnd = onTestFinished,
}: {
  count: number;
  args?: string[];
  atEnd?: AtEnd;
}): Promise<PoolProgram> {
  const ports = await freePorts(count);
  const dataDir = temporaryDataDir(atEnd);
  const child = spawn(
    process.execPath,
    [programPath, "pool", "--ports", ports.join(","), "--data-dir", dataDir, ...args],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: programEnv({}),
    },
  );
  let stdout = "";
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
    return child.exitCode;
  };
  atEnd(async () => void (await stop()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      if (stdout.includes("Press Ctrl-C")) resolve();
    });
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${stderr}`)));
  });
  const pid = child.pid ?? 0;
  const token = madeToken(dataDir, "pool-token");
  return {
    token,
    env: token === undefined ? {} : { CELLWRIGHT_POOL_TOKEN: token },
    ports,
    urls: ports.map((port) => `http://127.0.0.1:${port}`),
    pid,
    dataDir,
    stderr: () => stderr,
    backend: (port) => {
      const found = descendants(pid).find((id) => servesPort(id, port));
      if (found === undefined) throw new Error(`nothing serves port ${port}`);
      return found;
    },
    stop,
  };
}

function servesPort(pid: number, port: number): boolean {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return args.includes("serve") && args[args.lastIndexOf("--port") + 1] === String(port);
  } catch {
    return false;
  }
}
