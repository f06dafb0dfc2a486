import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import type { Jail } from "../../isolation/jail.ts";
import type { ProcessLimits } from "../../isolation/limits/limits.ts";
import type { Log } from "../../log.ts";
import { removeFolder } from "../../process/remove-folder.ts";
import type { KernelInfo } from "../kernel.ts";
import { ReportReader, setupLines } from "../shell/driver.ts";
import { shellEnd } from "../shell/ending.ts";
import { deferred, readyInTime } from "../starting.ts";
import { FifoReader, makeFifos } from "./fifo.ts";
import { BashKernel } from "./kernel.ts";
import { OutputPipes } from "./output-pipes.ts";
import { type ShellExit, startShell } from "./process.ts";

/** Where a jailed shell sees its pipes and cells, read-only. The name appears in syntax errors. */
const INSIDE_DIR = "/run/bash";

export interface BashStart {
  workspaceDir: string;
  runDir: string;
  /** Absent: not isolated. It must include the workspace. */
  jail?: Jail | undefined;
  /** The whole environment; in a jail, added to the jail's own. */
  env: Record<string, string>;
  limits?: ProcessLimits | undefined;
  /** Why it died, as a sentence, if more is known than the exit code. */
  causeOfDeath?: ((exit: { code: number | null; signal: string | null }) => Promise<string>) | undefined;
  /** The kernel's info; language and description are added here. */
  info: Pick<KernelInfo, "provider" | "layers" | "notes">;
  startTimeoutMs: number;
  signal: AbortSignal;
  log: Log;
}

/** Starts one persistent shell. A failed or aborted start leaves no process and no file. */
export async function startBash(options: BashStart): Promise<BashKernel> {
  const { signal, log, jail } = options;
  signal.throwIfAborted();
  await mkdir(options.workspaceDir, { recursive: true, mode: 0o700 });
  const folder = await mkdtemp(join(await realpath(options.runDir), "bash-"));
  const seenFolder = jail?.isolation.tier === "namespaces" ? INSIDE_DIR : folder;
  const seen = (path: string) => join(seenFolder, basename(path));
  const reportPipe = join(folder, "reports");
  const pipes = new OutputPipes(folder);
  const cleanUp = () => removeFolder(folder).catch((error) => log.warn(`could not remove ${folder}`, error));
  try {
    await makeFifos([reportPipe]);
    await pipes.prepare();
  } catch (error) {
    await cleanUp();
    throw startFailed(error instanceof Error ? error.message : String(error));
  }

  const reader = new ReportReader();
  const ready = deferred<string>();
  let kernel: BashKernel | undefined;
  const reports = new FifoReader(reportPipe, {
    take(bytes) {
      for (const report of reader.read(bytes)) {
        if (report.type === "ready") ready.resolve(report.version);
        else kernel?.receive(report);
      }
    },
  });
  const shell = startShell({
    workspaceDir: options.workspaceDir,
    env: options.env,
    jail: jail && {
      ...jail,
      readOnly: [...jail.readOnly, { from: folder, at: seenFolder }],
      pipes: [seenFolder],
    },
    limits: options.limits,
  });
  const closed = shell.exited.then(async (exit) => {
    const reason = await closedReason(exit, options);
    kernel?.close(reason);
    ready.reject(startFailed(`${reason} ${shell.words()}`.trim()));
    reports.destroy();
    pipes.close();
    await cleanUp();
    return { reason };
  });

  try {
    shell.write(setupLines(seen(reportPipe)));
    const version = await readyInTime(ready.promise, { ...options, who: "The shell" });
    // Both ends are open: no other process can open it from now on.
    await rm(reportPipe, { force: true });
    const pid = await shell.locate();
    const info: KernelInfo = { ...options.info, language: "bash", description: `bash ${version}` };
    kernel = new BashKernel({
      info,
      process: shell,
      pid,
      pipes,
      closed,
      files: { cell: join(folder, "cell"), variables: join(folder, "variables") },
      seen,
    });
    return kernel;
  } catch (error) {
    shell.kill("The start was aborted.");
    await closed;
    throw error;
  }
}

async function closedReason(exit: ShellExit, { causeOfDeath, log }: BashStart): Promise<string> {
  if (exit.reason) return exit.reason;
  const known = await causeOfDeath?.(exit).catch((error) => log.warn("the cause of a shell's death is unknown", error));
  if (known && exit.code === null) return known;
  if (!exit.signal && exit.code === null) return "The shell could not be started.";
  return shellEnd(exit);
}

function startFailed(detail: string): CellwrightError {
  return new CellwrightError("kernel_start_failed", `The shell did not start: ${detail.slice(-2_000)}`);
}
