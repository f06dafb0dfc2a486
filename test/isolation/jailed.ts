/** Ways to run a Python script: in a jail after a fork, in one that a launcher creates, and unjailed as the control. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, cpSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { jailHostDir } from "../../src/isolation/fork-jail.ts";
import type { Jail } from "../../src/isolation/jail.ts";
import type { ProcessLimits } from "../../src/isolation/limits/limits.ts";
import { jailRequest } from "../../src/isolation/policy.ts";
import { spawnJailed } from "../../src/isolation/spawn.ts";

const run = promisify(execFile);

export interface Ran {
  stdout: string;
  stderr: string;
  code: number;
}

export interface Way {
  name: string;
  run(script: string, args: string[], options: WayOptions): Promise<Ran>;
}

export interface WayOptions {
  python: string;
  jail: Jail;
  limits?: ProcessLimits;
  env?: Record<string, string>;
  /** A folder that this test may fill, and every user may enter. */
  folder: string;
  /** A folder of which the parent process has an open descriptor. */
  leave?: string;
  /** Whether to simulate the lack of a system call that older systems do not have. */
  oldSystem?: boolean;
}

/** Runs a program; any exit status is accepted. */
export async function outcome(command: string[], env: Record<string, string> = {}): Promise<Ran> {
  const [program = "", ...args] = command;
  return run(program, args, { env: { PATH: process.env.PATH ?? "", ...env }, timeout: 150_000 }).then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    (error) => ({ stdout: error.stdout ?? "", stderr: error.stderr ?? "", code: error.code ?? -1 }),
  );
}

/** The command line of `forked.py`, to be run with or without other rights. */
export function forkedCommand(script: string, args: string[], options: WayOptions & { unjailed?: boolean }): string[] {
  const { python, jail, limits, folder, leave, oldSystem, unjailed } = options;
  const file = join(folder, `request-${randomBytes(6).toString("hex")}.json`);
  const program = readableByAll(join(import.meta.dirname, "forked.py"), folder);
  const host = readableByAll(jailHostDir, folder);
  // It also mounts files of this repository.
  const policy: Jail = JSON.parse(JSON.stringify(jail).replaceAll(jailHostDir, host));
  const request = {
    host,
    ...(!unjailed && { policy: jailRequest(policy), limits }),
    script,
    arguments: args,
    leave,
    oldSystem,
  };
  writeFileSync(file, JSON.stringify(request), { mode: 0o644 });
  return [python, "-B", program, file];
}

/** A copy of a file or folder for tests that become another user, who cannot enter a home folder of mode 700. */
export function readableByAll(path: string, folder: string): string {
  const copy = join(folder, basename(path));
  cpSync(path, copy, { recursive: true });
  chmodSync(copy, 0o755);
  return copy;
}

export const forked: Way = {
  name: "after a fork",
  async run(script, args, options) {
    const ran = await outcome(forkedCommand(script, args, options), options.env);
    return { ...ran, stdout: ran.stdout.replace(/^\d+\n/, "") };
  },
};

export const spawned: Way = {
  name: "by a launcher",
  async run(script, args, { python, jail, limits }) {
    const { child } = spawnJailed(jail, [python, "-B", script, ...args], { stdio: ["ignore", "pipe", "pipe"], limits });
    let [stdout, stderr] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    const code = await new Promise<number>((resolve) => child.once("close", (code) => resolve(code ?? -1)));
    return { stdout, stderr, code };
  },
};

export const bare: Way = {
  name: "without walls",
  async run(script, args, options) {
    const ran = await outcome(forkedCommand(script, args, { ...options, unjailed: true }), options.env);
    return { ...ran, stdout: ran.stdout.replace(/^\d+\n/, "") };
  },
};
