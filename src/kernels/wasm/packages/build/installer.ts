import { join } from "node:path";
import { CellwrightError } from "../../../../errors.ts";
import type { Log } from "../../../../log.ts";
import { deferred } from "../../../starting.ts";
import type { InstallAnswer, InstallReport, InstallRequest, ResolvedPackage } from "../../deno/install/frames.ts";
import { denoEnv, runArgs } from "../../launch.ts";
import type { Sources } from "../../sources.ts";
import { failureOf, packageError } from "../failure.ts";
import { type DenoExit, startDeno } from "./deno-child.ts";
import type { Downloads } from "./downloads.ts";

export interface InstallerConfig {
  sources: Sources;
  siteDir: string;
  /** Snapshot of Python: loaded from an earlier installer, or saved for later ones. */
  snapshot: { use: "load" | "save"; file: string };
  /** Folders that it may read besides Pyodide and our own files. */
  readableDirs: string[];
  denoDir: string;
  downloads: Downloads;
  progress: (message: string) => void;
  log: Log;
}

/** One process that builds the files of one image. It starts Python at once, ready for when it is needed. */
export interface Installer {
  /** False: it exited before Python was ready. */
  ready: Promise<boolean>;
  /** `accept` sees the resolved packages before anything is unpacked; with false, nothing is. */
  install(request: InstallRequest, accept: (lock: ResolvedPackage[]) => Promise<boolean>): Promise<ResolvedPackage[]>;
  end(): Promise<void>;
}

/** An unexpected exit. Its stderr goes to the log; the message has only its last error line. */
function endedEarly({ code, signal, stderr }: DenoExit, requirements: string[]): CellwrightError {
  if (/No space left|os error 28|Disk quota/.test(stderr)) {
    return new CellwrightError("storage_full", `The disk is full: ${requirements.join(", ")} could not be installed.`);
  }
  const end = signal ? `was killed by ${signal}` : `ended with code ${code}`;
  const words = stderr.split("\n").filter((line) => /^\S*(Error|Exception)\b|^error:/.test(line));
  return packageError(
    `Cannot install ${requirements.join(", ")}: the installer ${end}. ${words.at(-1) ?? ""}`.trim(),
    "Try again. If it happens again, the log on stderr has more with --log-level debug.",
  );
}

export function startInstaller(config: InstallerConfig): Installer {
  const { sources, siteDir, snapshot, downloads, progress, log } = config;
  /** The id of the installer's `ready` report, which asks what to install. Undefined: it never came. */
  const asked = deferred<number | undefined>();
  let receive: (report: InstallReport) => void = () => {};
  const child = startDeno<InstallReport>({
    denoFile: sources.denoFile,
    args: [
      ...runArgs({
        read: [sources.pyodideDir, sources.hostDir, siteDir, snapshot.file, ...config.readableDirs],
        write: [siteDir, ...(snapshot.use === "save" ? [snapshot.file] : [])],
      }),
      sources.installerFile,
      sources.pyodideDir,
      join(sources.hostDir, "install"),
      siteDir,
      snapshot.use,
      snapshot.file,
    ],
    env: denoEnv(config.denoDir),
    report: (report) => (report.type === "ready" ? asked.resolve(report.id) : receive(report)),
    log,
  });
  void child.exited.then(() => asked.resolve(undefined));
  const answer = (id: number, answer: InstallAnswer["answer"]) => child.send({ id, answer } satisfies InstallAnswer);

  return {
    ready: asked.promise.then((id) => id !== undefined),
    async install(request, accept) {
      const finished = new Promise<ResolvedPackage[]>((resolve, reject) => {
        let lock: ResolvedPackage[] = [];
        receive = (report) => {
          if (report.type === "fetch") {
            void downloads.fetch(report.url, { page: report.page }).then((result) => answer(report.id, result));
          } else if (report.type === "index") downloads.setIndex({ url: report.url });
          else if (report.type === "progress") progress(report.message);
          else if (report.type === "resolved") {
            lock = report.packages;
            accept(lock).then((go) => (go ? answer(report.id, true) : resolve(lock)), reject);
          } else if (report.type === "done") resolve(lock);
          else if (report.type === "failed") reject(failureOf(report.failures, request.requirements));
        };
        void child.exited.then((exit) => reject(endedEarly(exit, request.requirements)));
      });
      void asked.promise.then((id) => {
        if (id !== undefined) answer(id, request);
      });
      return finished;
    },
    async end() {
      child.kill();
      await child.exited;
    },
  };
}
