import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { findProgram, isSafe } from "../../../../process/programs.ts";
import { isExecutable } from "../discover/candidate.ts";
import { homeOf } from "../discover/folders.ts";
import type { Interpreter } from "../probe/interpreter.ts";
import { runCommand } from "./command.ts";
import type { Installer, ReportProgress } from "./installer.ts";

/** uv is 25 MB. On a slower connection the packages would take too long as well. */
const FETCH_TIMEOUT_MS = 3 * 60_000;

const binary = process.platform === "win32" ? "uv.exe" : "uv";

/** Finds uv on the PATH, where its installer puts it, or in Cellwright's cache. */
export function findUv(env: NodeJS.ProcessEnv, cacheDir: string): string | undefined {
  const home = homeOf(env);
  const places = [join(home, ".local/bin"), join(home, ".cargo/bin"), join(cacheDir, "uv/bin")];
  return (
    findProgram("uv", env) ??
    places.map((folder) => join(folder, binary)).find((path) => isExecutable(path) && isSafe(path))
  );
}

/** Downloads uv into the cache with pip. Undefined on failure: pip is the fallback. */
export async function fetchUv(
  base: Interpreter,
  { env, cacheDir, signal }: { env: NodeJS.ProcessEnv; cacheDir: string; signal?: AbortSignal | undefined },
): Promise<string | undefined> {
  if (!base.hasPip) return undefined;
  await mkdir(cacheDir, { recursive: true });
  const draft = await mkdtemp(join(cacheDir, "uv-"));
  try {
    // --target leaves the user's Python unchanged, and works with an externally managed one, too.
    const args = ["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-compile", "--target", draft, "uv"];
    const options = { env, timeoutMs: FETCH_TIMEOUT_MS, signal };
    const { ok } = await runCommand(base.python, ["-I", "-m", "pip", ...args], options);
    if (!ok || !isExecutable(join(draft, "bin", binary))) return undefined;
    const folder = join(cacheDir, "uv");
    const path = join(folder, "bin", binary);
    // Another process may have won the race and be using its copy.
    if (isExecutable(path)) return path;
    await rm(folder, { recursive: true, force: true });
    await rename(draft, folder);
    return path;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

export function uvInstaller(uv: string): Installer {
  return {
    name: "uv",
    compiles: false,
    makeEnvironment: (base, folder) => [uv, "venv", "--no-project", "--python", base.python, folder],
    install: (python, words) => [uv, "pip", "install", "--python", python, ...words],
    listen: followUv,
  };
}

/** Derives the progress from uv's output without a terminal. */
function followUv(report: ReportProgress): (line: string) => void {
  const sizes = new Map<string, number>();
  const downloaded = new Set<string>();
  const sum = (names: Iterable<string>) => [...names].reduce((total, name) => total + (sizes.get(name) ?? 0), 0);
  return (line) => {
    const [, begun, size, unit] = /^\s*Downloading (\S+) \(([\d.]+)([KMG])iB\)/.exec(line) ?? [];
    if (begun && size) sizes.set(begun, Number(size) * { K: 0.001, M: 1, G: 1000 }[unit as "K" | "M" | "G"]);
    const ended = /^\s*Downloaded (\S+)/.exec(line)?.[1];
    if (ended) downloaded.add(ended);
    if (begun || ended) {
      const [done, all] = [sum(downloaded), sum(sizes.keys())];
      report({ fraction: 0.1 + (0.7 * done) / all, message: `downloading ${done.toFixed(0)} of ${all.toFixed(0)} MB` });
    }
    if (/^Resolved \d+/.test(line)) report({ fraction: 0.1, message: "downloading" });
    if (/^Prepared \d+/.test(line)) report({ fraction: 0.85, message: "unpacking" });
    if (/^Installed \d+/.test(line)) report({ fraction: 1, message: "unpacked" });
  };
}
