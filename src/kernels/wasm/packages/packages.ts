import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { CellwrightError, hasCode } from "../../../errors.ts";
import type { Log } from "../../../log.ts";
import { configuredIndex, type IndexAddress, pipIndex } from "../../../packages/index-address.ts";
import { normalName, normalRequirements } from "../../../packages/requirement.ts";
import type { Sources } from "../sources.ts";
import { buildImage, removeImage, snapshotName } from "./build/build.ts";
import { type Distribution, readDistribution } from "./build/distribution.ts";
import type { SilentHosts } from "./build/downloads.ts";
import { networkEnv } from "./build/network-env.ts";
import { readWheelFolder } from "./build/wheel-folder.ts";
import { describeImage, type Image, openImage, type SealedImage, touchImage } from "./image.ts";
import { packageOf } from "./module-names.ts";
import { announce } from "./presence.ts";
import { type Caller, createSharedWork } from "./shared-work.ts";

export type { Image } from "./image.ts";
export { linkInto } from "./link.ts";

/** How long a failure is cached for requests that only guess a package's name. */
const FAILURE_MS = 60_000;

/** Poll interval while another process builds the same image. */
const LOOK_AGAIN_MS = 250;

export interface PackagesConfig {
  /** Images are in `images/<id>` below it, the files for building them in `packages`. */
  cacheDir: string;
  /** A local folder of wheels, searched first. */
  packageDir?: string | undefined;
  /** Address of Pyodide's distribution; absent: the default. */
  pyodideBaseUrl?: string | undefined;
  packageIndex?: string | undefined;
  /** For the index, the proxy and the certificates. */
  env: NodeJS.ProcessEnv;
  log: Log;
}

export interface ImageOptions {
  signal: AbortSignal;
  progress?: ((message: string) => void) | undefined;
  /** Packages that the session already has: if the image needs them, it has the same versions. */
  keep?: { name: string; version: string }[] | undefined;
  /** The package name is a guess: a recent failure is not retried, because that takes seconds. */
  isGuess?: boolean | undefined;
}

export interface Packages {
  /** The image that satisfies these requirements, built if necessary. Concurrent callers share one build. */
  image(requirements: string[], options: ImageOptions): Promise<Image>;
  /** The package that provides a top-level module; undefined for names that cannot be a package's. */
  distributionFor(module: string): string | undefined;
  /** Whether Pyodide's own distribution has a package of this name. */
  isKnown(name: string): boolean;
  list(): Promise<Image[]>;
  /** Removes images that were unused for this long, and returns them. */
  prune(options: { unusedForMs: number }): Promise<Image[]>;
  /** Stops running installers. */
  dispose(): Promise<void>;
}

export function createPackages(config: PackagesConfig, sources: Sources): Packages {
  const { cacheDir, env, log } = config;
  const imagesDir = join(cacheDir, "images");
  const workDir = join(cacheDir, "packages");
  const requestsDir = join(workDir, "requests");
  const locksDir = join(workDir, "locks");
  const making = createSharedWork<SealedImage>();
  const failures = new Map<string, { error: CellwrightError; atMs: number }>();
  const silentHosts: SilentHosts = new Map();
  let knownDistribution: Distribution | undefined;
  let knownIndex: Promise<IndexAddress | undefined> | undefined;
  let disposed = false;

  const distribution = () => {
    knownDistribution ??= readDistribution(sources, config.pyodideBaseUrl);
    return knownDistribution;
  };
  const index = () => {
    knownIndex ??= Promise.resolve(configuredIndex(config.packageIndex, env) ?? pipIndex(env));
    return knownIndex;
  };

  /** The image of an earlier identical request, if it is still complete. */
  const remembered = async (key: string): Promise<SealedImage | undefined> => {
    const id = await readFile(join(requestsDir, key), "utf8").catch(() => "");
    if (!/^[0-9a-f]+$/.test(id)) return undefined;
    const folder = join(imagesDir, id);
    const image = await openImage(folder);
    if (!image) {
      log.debug(`image ${id} is missing or broken`);
      await removeImage(folder);
    }
    return image;
  };
  const remember = async (key: string, id: string): Promise<void> => {
    const draft = join(requestsDir, `.${randomBytes(6).toString("hex")}`);
    await writeFile(draft, id);
    await rename(draft, join(requestsDir, key));
  };

  return {
    async image(requirements, { signal, progress, keep = [], isGuess = false }) {
      if (disposed) throw new CellwrightError("internal", "Packages were requested after shutdown.");
      const wanted = normalRequirements(requirements);
      const constraints = keep.map(({ name, version }) => `${name}==${version}`).sort();
      const wheels = await readWheelFolder(config.packageDir);
      const { url, hash } = distribution();
      // Without pip's configured index: asking pip takes longer than everything else here.
      const places = [wheels.fingerprint, url, hash, configuredIndex(config.packageIndex, env)?.url];
      const key = hashOf([sources.versions, wanted, constraints, places]);

      const failed = failures.get(key);
      if (isGuess && failed && performance.now() - failed.atMs < FAILURE_MS) throw failed.error;

      const make = async (caller: Required<Caller>): Promise<SealedImage> => {
        for (const folder of [requestsDir, locksDir]) await mkdir(folder, { recursive: true, mode: 0o755 });
        for (let waited = false; ; waited = true) {
          const ready = await remembered(key);
          if (ready) return ready;
          const presence = await announce(join(locksDir, key));
          if (!presence) {
            if (!waited) caller.progress?.("waiting for another Cellwright that is installing the same packages");
            await pause(LOOK_AGAIN_MS, undefined, { signal: caller.signal });
            continue;
          }
          try {
            const image = await buildImage({
              ...{ requirements: wanted, constraints, sources, wheels, index, imagesDir, workDir, silentHosts, log },
              distribution: distribution(),
              networkEnv: networkEnv(env),
              signal: caller.signal,
              progress: caller.progress ?? (() => {}),
            });
            await remember(key, image.id);
            return image;
          } finally {
            await presence.end();
          }
        }
      };
      const { files, ...image } = await making.run(key, make, { signal, progress }).catch((error) => {
        noteFailure(key, error);
        throw error;
      });
      await touchImage(join(imagesDir, image.id));
      return image;
    },

    distributionFor: (module) => packageOf(module, distribution()),

    isKnown: (name) => Object.hasOwn(distribution().packages, normalName(name)),

    async list() {
      return (await described()).map(({ usedMs, ...image }) => image);
    },

    async prune({ unusedForMs }) {
      const removed: Image[] = [];
      for (const { usedMs, ...image } of await described()) {
        if (Date.now() - usedMs < unusedForMs) continue;
        await removeImage(join(imagesDir, image.id));
        removed.push(image);
      }
      await removeRemains();
      const left = new Set(await folders());
      for (const key of await readdir(requestsDir).catch(() => [])) {
        const file = join(requestsDir, key);
        const id = await readFile(file, "utf8").catch(() => "");
        if (!left.has(id)) await rm(file, { force: true });
      }
      return removed;
    },

    async dispose() {
      disposed = true;
      await making.stop(new CellwrightError("internal", "Cellwright is shutting down."));
    },
  };

  function noteFailure(key: string, error: unknown): void {
    const now = performance.now();
    for (const [old, { atMs }] of failures) if (now - atMs >= FAILURE_MS) failures.delete(old);
    if (hasCode(error, "package_error")) failures.set(key, { error, atMs: now });
  }

  /** Removes leftovers of an interrupted prune, and of other versions. */
  async function removeRemains(): Promise<void> {
    const halves = (await readdir(imagesDir).catch(() => [])).filter((name) => name.startsWith(".removed-"));
    for (const name of halves) await rm(join(imagesDir, name), { recursive: true, force: true });
    const snapshots = (await readdir(workDir).catch(() => [])).filter((name) => name.startsWith("python-"));
    for (const name of snapshots.filter((name) => name !== snapshotName(sources))) await rm(join(workDir, name));
  }

  async function folders(): Promise<string[]> {
    return (await readdir(imagesDir).catch(() => [])).filter((name) => /^[0-9a-f]+$/.test(name));
  }

  async function described() {
    const all = await Promise.all((await folders()).map((id) => describeImage(join(imagesDir, id))));
    return all.filter((image) => image !== undefined).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  }
}

function hashOf(parts: unknown): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}
