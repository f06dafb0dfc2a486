import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { planLaunch } from "../../../src/kernels/wasm/launch.ts";
import { findSources } from "../../../src/kernels/wasm/sources.ts";

const namespaces = {
  tier: "namespaces" as const,
  launcher: { kind: "bubblewrap" as const, program: "/usr/bin/bwrap" },
  landlockAbi: 0,
  libraries: [],
};

function launch({ jailed }: { jailed: boolean }) {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-launch-")));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const workspaceDir = join(base, "work");
  mkdirSync(join(workspaceDir, "tools/envs/one"), { recursive: true });
  mkdirSync(join(workspaceDir, ".vscode"));
  const { command, jail } = planLaunch({
    sources: findSources(),
    snapshotFile: join(base, "snapshot"),
    workspaceDir,
    readOnlyPaths: [".git", ".vscode", "tools/envs/one", "a,b"],
    siteDir: join(base, "site"),
    denoDir: join(base, "deno"),
    memoryMb: 256,
    diskMb: 64,
    isolation: jailed ? namespaces : undefined,
  });
  return { command, jail, workspaceDir };
}

test("Deno refuses writes to protected paths, also to those that do not exist yet", () => {
  const { command, workspaceDir } = launch({ jailed: false });
  const names = [".git", ".vscode", "tools/envs/one", "a,,b"].map((name) => join(workspaceDir, name));
  expect(command).toContain(`--deny-write=${names.join(",")}`);
});

test("in a jail those that exist are read-only mounts, and folders above them are pinned", () => {
  const { command, jail, workspaceDir } = launch({ jailed: true });
  const mount = (path: string) => ({ from: join(workspaceDir, path), at: `/cell/files/${path}` });
  for (const path of [".vscode", "tools/envs/one"]) expect(jail?.readOnly).toContainEqual(mount(path));
  for (const pin of ["tools", "tools/envs"]) expect(jail?.readWrite).toContainEqual(mount(pin));
  expect(jail?.readOnly).not.toContainEqual(mount(".git"));
  expect(command.join(" ")).toContain("--deny-write=/cell/files/.git,/cell/files/.vscode,");
});
