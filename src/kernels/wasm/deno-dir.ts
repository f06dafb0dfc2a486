import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Log } from "../../log.ts";
import { type LaunchOptions, planLaunch, v8Flags } from "./launch.ts";
import { startProcess } from "./process.ts";

/** Time limit of the rehearsal: a kernel that is started only for the compiled code it leaves behind. */
const REHEARSAL_TIMEOUT_MS = 60_000;

/** Compiled code is valid only for the paths it was loaded from, which differ in a jail, and for the same V8 flags. */
function templateName(launch: TemplateLaunch): string {
  return `deno-dir-${launch.isolation?.tier ?? "unjailed"}-${crc32(v8Flags(launch.memoryMb)).toString(16)}`;
}

type TemplateLaunch = Pick<LaunchOptions, "sources" | "snapshotFile" | "isolation" | "memoryMb">;

/**
 * A DENO_DIR per kernel. Never shared: user code can write to it through the Cache API. A copy of the template saves a
 * third of the start time.
 */
export async function createDenoDir(runDir: string, template: string | undefined): Promise<string> {
  const denoDir = join(runDir, `deno-${randomBytes(6).toString("hex")}`);
  await mkdir(denoDir, { recursive: true, mode: 0o700 });
  // Another process may be rebuilding the snapshot's folder.
  if (template) await cp(template, denoDir, { recursive: true }).catch(() => {});
  return realpath(denoDir);
}

/** Builds the template once, by running an idle kernel. Undefined if that failed: kernels then start slower. */
export async function findTemplate(folder: string, launch: TemplateLaunch, log: Log): Promise<string | undefined> {
  const template = join(folder, templateName(launch));
  if (existsSync(template)) return template;
  const draft = join(folder, `rehearsal-${randomBytes(6).toString("hex")}`);
  try {
    const [denoDir, workspaceDir, siteDir] = ["deno", "workspace", "site"].map((name) => join(draft, name)) as [
      string,
      string,
      string,
    ];
    for (const made of [denoDir, workspaceDir, siteDir]) await mkdir(made, { recursive: true, mode: 0o700 });
    await rehearse({ ...launch, denoDir, workspaceDir, siteDir, diskMb: 1 }, log);
    await rename(denoDir, template).catch((error) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    return template;
  } catch (error) {
    log.debug(`kernels will start slower: ${error}`);
    return undefined;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Deno writes its compiled code only when it exits normally. */
async function rehearse(options: LaunchOptions, log: Log): Promise<void> {
  let ready = false;
  const process = startProcess(
    planLaunch(options),
    (report) => {
      ready ||= report.type === "ready";
      process.end();
    },
    log,
  );
  const timer = setTimeout(() => process.kill("The rehearsal took too long."), REHEARSAL_TIMEOUT_MS);
  const exit = await process.exited;
  clearTimeout(timer);
  if (!ready) throw new Error(`the rehearsal failed: ${exit.reason ?? exit.stderr}`);
}
