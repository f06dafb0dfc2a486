import { realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { findIsolation } from "../../src/isolation/isolation.ts";
import type { EnvironmentsConfig } from "../../src/kernels/local/environments/environment.ts";
import { Remembered } from "../../src/kernels/local/environments/probe/remembered.ts";
import { type VouchOptions, vouch } from "../../src/kernels/local/environments/vouch.ts";
import { createLog } from "../../src/log.ts";

const root = join(import.meta.dirname, "../..");

/** The Pythons that local kernels are tested with. The variable names another one. */
const pythons = {
  /** The managed environment with bokeh: the newest ipykernel. Created by `node scripts/setup.mjs test`. */
  managed: { variable: "CELLWRIGHT_TEST_PYTHON", usual: join(root, ".cache/test-env/bin/python") },
  /** The system's own, with Debian's python3-ipykernel: the oldest ipykernel that must work. */
  debian: { variable: "CELLWRIGHT_TEST_DEBIAN_PYTHON", usual: "/usr/bin/python3" },
};

export type TestPython = keyof typeof pythons;

/** The path of an interpreter that has ipykernel. */
export function testPython(which: TestPython): string {
  const { variable, usual } = pythons[which];
  return process.env[variable] ?? usual;
}

/** The folder of its environment, for `env`. */
export function testEnvironment(which: TestPython): string {
  return dirname(dirname(testPython(which)));
}

/** What code can access, according to the options. */
export type TestReach = Pick<VouchOptions, "workspace" | "allowWrite" | "filesDir">;

/** For tests of environment discovery: only what a test creates exists. */
export function environmentsConfig(
  changed: Partial<EnvironmentsConfig> & { dataDir: string } & TestReach,
): EnvironmentsConfig {
  const { workspace, allowWrite, filesDir, ...given } = changed;
  const { dataDir, defaultEnv } = given;
  const envRoot = given.envRoot ?? join(dataDir, "env-root");
  const env = given.env ?? { PATH: "/usr/bin:/bin", HOME: dataDir, JUPYTER_DATA_DIR: join(dataDir, "jupyter") };
  // The tests' Python counts as one that this user has installed.
  env.UV_PYTHON_INSTALL_DIR ??= pythonsFolder();
  const workingDir = given.workingDir ?? tmpdir();
  return {
    autoInstallIpykernel: false,
    vouched: vouch({ dataDir, envRoot, defaultEnv, workspace, allowWrite, filesDir, env, workingDir }),
    allowPaths: true,
    jail: { isOff: false, isolation: () => findIsolation("auto") },
    remembered: new Remembered(),
    log: createLog("silent"),
    ...given,
    envRoot,
    env,
    workingDir,
  };
}

function pythonsFolder(): string {
  try {
    const prefix = dirname(dirname(realpathSync(testPython("managed"))));
    // The system's Python is known anyway, and its folder contains other programs.
    return prefix === "/usr" ? "/nowhere" : dirname(prefix);
  } catch {
    return "/nowhere";
  }
}
