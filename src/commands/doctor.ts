import { access, constants, mkdir, statfs } from "node:fs/promises";
import { createApp } from "../app.ts";
import { LOCAL_OWNER } from "../engine/sessions/sessions.ts";
import { CellwrightError } from "../errors.ts";
import { findIsolation, gapsOf } from "../isolation/isolation.ts";
import type { Options } from "../options/options.ts";
import { version } from "../version.ts";

interface Finding {
  ok: boolean;
  what: string;
  detail: string;
}

/** Checks what works on this machine, and says how to repair the rest. Returns the exit code. */
export async function doctor(options: Options): Promise<number> {
  process.stdout.write(`Cellwright ${version} on ${process.platform} ${process.arch}\n\n`);
  let failed = false;
  for (const check of [checkNode, checkDataDir, checkSandbox, checkKernel]) {
    for (const { ok, what, detail } of await check(options)) {
      failed ||= !ok;
      process.stdout.write(`${ok ? "ok  " : "FAIL"}  ${what.padEnd(14)} ${detail}\n`);
    }
  }
  return failed ? 1 : 0;
}

async function checkNode(): Promise<Finding[]> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return [{ ok, what: "Node", detail: ok ? process.version : `${process.version}: install Node 20.19 or newer` }];
}

async function checkDataDir({ dataDir }: Options): Promise<Finding[]> {
  const what = "Data folder";
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await access(dataDir, constants.W_OK);
    const { bavail, bsize } = await statfs(dataDir);
    const freeGb = (bavail * bsize) / 1e9;
    const detail = `${dataDir}, ${freeGb.toFixed(1)} GB free`;
    return [{ ok: freeGb > 0.2, what, detail: freeGb > 0.2 ? detail : `${detail}: free some space` }];
  } catch (error) {
    return [{ ok: false, what, detail: `${dataDir}: ${(error as Error).message}. Choose another with --data-dir` }];
  }
}

/** The isolation tier, and its gaps. */
async function checkSandbox({ jail }: Options): Promise<Finding[]> {
  if (jail === "none")
    return [{ ok: true, what: "Sandbox", detail: "none (--jail none): code runs with your full rights" }];
  const found = await findIsolation(jail);
  if ("obstacle" in found) {
    const detail = `${found.obstacle}. Install bubblewrap or python3, or allow user namespaces`;
    return [{ ok: process.platform !== "linux", what: "Sandbox", detail }];
  }
  const by = found.tier === "landlock" ? `Landlock ${found.landlockAbi}` : `namespaces, by ${found.launcher.program}`;
  const gaps = gapsOf(found);
  return [{ ok: true, what: "Sandbox", detail: [by, ...gaps.map((gap) => `not closed: ${gap}`)].join("; ") }];
}

/** Runs a cell: the only proof that a kernel works. */
async function checkKernel(options: Options): Promise<Finding[]> {
  const app = await createApp(options);
  try {
    const began = performance.now();
    const session = await app.sessions.create(LOCAL_OWNER);
    const { outputs } = await session.execute("1 + 1").finished;
    const result = outputs.find((output) => output.type === "result")?.data["text/plain"];
    const { description = "", layers = [], notes = [] } = session.kernels[0] ?? {};
    await app.sessions.close(session, { deleteFiles: true });
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    return [
      { ok: result === "2", what: "Kernel", detail: `${description}; 1 + 1 is ${result} after ${seconds} s` },
      ...notes.map((detail) => ({ ok: true, what: "Note", detail })),
      { ok: layers.length > 0, what: "Isolation", detail: layers.join(", ") || "none: code can access this machine" },
    ];
  } catch (error) {
    const hint = error instanceof CellwrightError ? ` ${error.hint}` : "";
    return [{ ok: false, what: "Kernel", detail: `${(error as Error).message}${hint}` }];
  } finally {
    await app.dispose();
  }
}
