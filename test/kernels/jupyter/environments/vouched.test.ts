import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { environmentsConfig, projectEnvironments } from "../../../../src/kernels/jupyter/environments/environments.ts";
import { createLog } from "../../../../src/log.ts";
import { defaultOptions } from "../../../../src/options.ts";

let workspace: string;
const { VIRTUAL_ENV } = process.env;

beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "cw-vouched-")));
  delete process.env.VIRTUAL_ENV;
});
afterEach(() => {
  if (VIRTUAL_ENV !== undefined) process.env.VIRTUAL_ENV = VIRTUAL_ENV;
  rmSync(workspace, { recursive: true });
});

const trusted = (options: object = {}) =>
  environmentsConfig({ ...defaultOptions(), workspace, envRoot: "/nowhere", ...options }, createLog("silent"))
    .protectedFromCode;

test("an environment that just lies in the workspace is not trusted, and cannot be changed by code", () => {
  mkdirSync(join(workspace, ".venv"));
  expect(trusted()).toEqual([]);
  expect(projectEnvironments(workspace)).toEqual([join(workspace, ".venv")]);
});

test("the one of the operator's terminal is trusted", () => {
  mkdirSync(join(workspace, ".venv"));
  process.env.VIRTUAL_ENV = join(workspace, ".venv");
  expect(trusted()).toEqual([join(workspace, ".venv")]);
});

test("the folder of named environments is made before code could make it", () => {
  const envRoot = join(workspace, "envs");
  expect(trusted({ envRoot })).toEqual([envRoot]);
  expect(existsSync(envRoot)).toBe(true);
});

test("without a jail nothing is kept from code, so nothing is trusted", () => {
  expect(trusted({ jail: "none", envRoot: workspace })).toEqual([]);
});
