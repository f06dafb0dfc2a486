import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EnvironmentsConfig } from "../../src/kernels/jupyter/environments/environment.ts";
import { Remembered } from "../../src/kernels/jupyter/environments/remembered.ts";
import { createLog } from "../../src/log.ts";

const root = join(import.meta.dirname, "../..");

/** The Pythons that local kernels are tested with. The variable names another one. */
const pythons = {
  /** What `cellwright env create` makes, and bokeh: the newest ipykernel. Made by `node scripts/setup.mjs test`. */
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

/** For finding environments in a world where there is none but what a test makes. */
export function environmentsConfig(changed: Partial<EnvironmentsConfig> & { dataDir: string }): EnvironmentsConfig {
  const { dataDir } = changed;
  return {
    envRoot: join(dataDir, "env-root"),
    autoInstallIpykernel: false,
    writableByCode: [join(dataDir, "sessions")],
    env: { PATH: "/usr/bin:/bin", HOME: dataDir, JUPYTER_DATA_DIR: join(dataDir, "jupyter") },
    workingDir: tmpdir(),
    remembered: new Remembered(),
    log: createLog("silent"),
    ...changed,
  };
}
