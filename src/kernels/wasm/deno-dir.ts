import { randomBytes } from "node:crypto";
import { access, cp, mkdir, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Log } from "../../log.ts";
import { type LaunchOptions, planLaunch, v8Flags } from "./launch.ts";
import { startProcess } from "./process.ts";

/** A kernel that only lives to leave its compiled code behind; without it, kernels start, but slower. */
const REHEARSAL_TIMEOUT_MS = 60_000;

/** Compiled code is only good for the paths it was loaded from, which are others in a jail, and for V8's flags. */
function templateName(launch: TemplateLaunch): string {
  return `deno-dir-${launch.isolation?.tier ?? "unjailed"}-${crc32(v8Flags(launch.memoryMb)).toString(16)}`;
}

type TemplateLaunch = Pick<LaunchOptions, "sources" | "snapshotFile" | "isolation" | "memoryMb">;

/**
 * A folder of a kernel's own. Never shared: user code can write to it through the Cache API. A copy of the template
 * saves a third of the start.
 */
export async function createDenoDir(runDir: string, template: string | undefined): Promise<string> {
  const denoDir = join(runDir, `deno-${randomBytes(6).toString("hex")}`);
  await mkdir(denoDir, { recursive: true, mode: 0o700 });
  // Another process may just be building the snapshot's folder anew.
  if (template) await cp(template, denoDir, { recursive: true }).catch(() => {});
  return realpath(denoDir);
}

/** Makes the template once, by running a kernel that has nothing to do. Nothing: it could not be made. */
export async function findTemplate(folder: string, launch: TemplateLaunch, log: Log): Promise<string | undefined> {
  const template = join(folder, templateName(launch));
  const exists = await access(template).then(
    () => true,
    () => false,
  );
  if (exists) return template;
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

/** Deno writes its compiled code by the time it has ended in peace. */
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
