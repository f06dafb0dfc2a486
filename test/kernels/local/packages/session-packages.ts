import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findIsolation } from "../../../../src/isolation/isolation.ts";
import type { Isolation } from "../../../../src/isolation/jail.ts";
import type { InstalledPackage } from "../../../../src/kernels/kernel.ts";
import type { PythonEnvironment } from "../../../../src/kernels/local/environments/environment.ts";
import { findEnvironment } from "../../../../src/kernels/local/environments/find.ts";
import { createInstaller, type InstallerConfig } from "../../../../src/kernels/local/packages/installer.ts";
import { createLog } from "../../../../src/log.ts";
import { environmentsConfig, type TestPython, testPython } from "../../../support/pythons.ts";
import { atEnd } from "../../wasm/packages/clear-up.ts";
import type { Wheel } from "../../wasm/packages/wheels.ts";

const root = join(import.meta.dirname, "../../../..");

/** None of this machine's settings: a test names its own sources. uv is where `npm test` puts it. */
export const bareEnv = {
  PATH: `${join(root, ".cache/uv/bin")}:/usr/bin:/bin`,
  HOME: tmpdir(),
  PIP_CONFIG_FILE: "/dev/null",
};

export const never = new AbortController().signal;

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cw-install-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function wheelFolder(wheels: Wheel[]): string {
  const folder = temporaryFolder();
  for (const { file, data } of wheels) writeFileSync(join(folder, file), data);
  return folder;
}

export function testEnvironment(which: TestPython): Promise<PythonEnvironment> {
  return findEnvironment(undefined, environmentsConfig({ dataDir: temporaryFolder(), defaultEnv: testPython(which) }));
}

export interface SessionPackages {
  overlayDir: string;
  runDir: string;
  install(...requirements: string[]): Promise<InstalledPackage[]>;
  installUntil(signal: AbortSignal, ...requirements: string[]): Promise<InstalledPackage[]>;
  /** Remains of an aborted installation. */
  leftovers(): string[];
}

/** The best tier that works here; without any, installations run unjailed. */
export async function isolation(): Promise<Isolation | undefined> {
  const found = await findIsolation("auto");
  return "obstacle" in found ? undefined : found;
}

/** The packages of a session without a kernel. */
export async function sessionPackages(
  environment: PythonEnvironment,
  config: Partial<InstallerConfig>,
): Promise<SessionPackages> {
  const runDir = temporaryFolder();
  const open = createInstaller({
    env: bareEnv,
    cacheDir: join(root, ".cache"),
    initial: [],
    isolation,
    log: createLog("silent"),
    ...config,
  });
  const { overlayDir, installer } = await open({ sessionId: "test", runDir }, async () => environment);
  const { install } = installer(async () => ({ loaded: [] }));
  return {
    overlayDir,
    runDir,
    install: (...requirements) => install(requirements, { signal: never }),
    installUntil: (signal, ...requirements) => install(requirements, { signal }),
    leftovers: () => readdirSync(runDir).filter((name) => name.startsWith("installing-")),
  };
}

/** Whether this machine can connect to its own ports. */
export function reachable(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** An environment whose Python, instead of installing, reports what it can reach as the "version" of a package. */
export function probingEnvironment(environment: PythonEnvironment, otherPort: number): PythonEnvironment {
  const folder = temporaryFolder();
  const python = join(folder, "python");
  const probe = join(import.meta.dirname, "install-probe.py");
  const real = `exec ${environment.python}`;
  writeFileSync(
    python,
    `#!/bin/sh\ncase "$1" in -I) ${real} -I ${probe} ${otherPort} "$3";; *) ${real} "$@";; esac\n`,
    {
      mode: 0o755,
    },
  );
  return { ...environment, python, readPaths: [...environment.readPaths, folder, import.meta.dirname] };
}
