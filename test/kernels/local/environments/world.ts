import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { EnvironmentsConfig } from "../../../../src/kernels/local/environments/environment.ts";
import { environmentsConfig, type TestReach, testPython } from "../../../support/pythons.ts";

/** A separate home with environments that are created in a millisecond: a link to a real Python and a few files. */
export interface World {
  home: string;
  config(changed?: Partial<EnvironmentsConfig> & TestReach): EnvironmentsConfig;
  /** A virtual environment at this path below home. */
  venv(path: string, options?: { ipykernel?: string | false; pip?: string }): string;
  /** An environment of conda or pixi, recognized by a folder `conda-meta` beside the interpreter. */
  conda(path: string, options?: { ipykernel?: string | false; python?: boolean }): string;
  kernelspec(name: string, argv: string[]): string;
  /** A program below home, as a script for `sh`. */
  script(path: string, lines: string[]): string;
  file(path: string, content: string): string;
}

export function createWorld(): World {
  const home = mkdtempSync(join(realpathSync(tmpdir()), "cellwright environments-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));

  const file: World["file"] = (path, content) => {
    const whole = join(home, path);
    mkdirSync(dirname(whole), { recursive: true });
    writeFileSync(whole, content);
    return whole;
  };
  const base = () => realpathSync(testPython("managed"));
  const linkPython = (path: string) => {
    mkdirSync(join(home, path, "bin"), { recursive: true });
    symlinkSync(base(), join(home, path, "bin/python"));
  };
  const sitePackages = (path: string) => `${path}/lib/python${pythonVersion()}/site-packages`;

  const venv: World["venv"] = (path, { ipykernel = "7.4.0", pip } = {}) => {
    file(`${path}/pyvenv.cfg`, `home = ${dirname(base())}\ninclude-system-site-packages = false\n`);
    linkPython(path);
    file(`${sitePackages(path)}/numpy-2.4.6.dist-info/METADATA`, "");
    if (ipykernel) addIpykernel(join(home, sitePackages(path)), ipykernel);
    if (pip) file(`${sitePackages(path)}/pip/__main__.py`, pip);
    if (pip) file(`${sitePackages(path)}/pip/__init__.py`, "");
    return join(home, path);
  };

  return {
    home,
    venv,
    file,
    config: (changed = {}) =>
      environmentsConfig({
        dataDir: join(home, "data"),
        envRoot: join(home, "envs"),
        env: { PATH: "/usr/bin:/bin", HOME: home, JUPYTER_DATA_DIR: join(home, "jupyter") },
        workingDir: home,
        ...changed,
      }),
    conda(path, { python = true, ...options } = {}) {
      if (python) venv(path, options);
      file(`${path}/conda-meta/history`, "");
      return join(home, path);
    },
    kernelspec(name, argv) {
      const spec = { argv: [...argv, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language: "python" };
      return dirname(file(`jupyter/kernels/${name}/kernel.json`, JSON.stringify(spec)));
    },
    script(path, lines) {
      const whole = file(path, ["#!/bin/sh", ...lines, ""].join("\n"));
      chmodSync(whole, 0o755);
      return whole;
    },
  };
}

/** Makes ipykernel look installed. */
export function addIpykernel(sitePackages: string, version: string): void {
  mkdirSync(join(sitePackages, "ipykernel"), { recursive: true });
  mkdirSync(join(sitePackages, `ipykernel-${version}.dist-info`), { recursive: true });
  writeFileSync(join(sitePackages, "ipykernel/__init__.py"), "");
}

/** A fake pip that only puts an ipykernel where the real one would, and records the call. */
export const standInPip = (log: string) => `
import os, site, sys
with open(${JSON.stringify(log)}, "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
folder = site.getsitepackages()[0]
os.makedirs(os.path.join(folder, "ipykernel-7.4.0.dist-info"))
os.makedirs(os.path.join(folder, "ipykernel"))
open(os.path.join(folder, "ipykernel", "__init__.py"), "w").close()
`;

let known: string | undefined;
/** `3.11`, as in folder names. */
export function pythonVersion(): string {
  const ask = "import sys; print('%d.%d' % sys.version_info[:2])";
  known ??= execFileSync(testPython("managed"), ["-I", "-c", ask], { encoding: "utf8" }).trim();
  return known;
}
