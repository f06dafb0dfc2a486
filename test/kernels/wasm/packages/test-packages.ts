import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createPackages,
  type Image,
  type ImageOptions,
  type Packages,
  type PackagesConfig,
} from "../../../../src/kernels/wasm/packages/packages.ts";
import { findSources, type Sources } from "../../../../src/kernels/wasm/sources.ts";
import { createLog } from "../../../../src/log.ts";
import { atEnd } from "./clear-up.ts";

/** Installers start from a snapshot and compiled code; created once for all tests. */
const sharedDir = join(tmpdir(), "cellwright-test-installer");
mkdirSync(join(sharedDir, "deno"), { recursive: true });

export interface TestPackages {
  packages: Packages;
  cacheDir: string;
  config: PackagesConfig;
  image(requirements: string[], options?: Partial<ImageOptions>): Promise<Image>;
  /** Remains of an unfinished installation. */
  leftovers(): string[];
}

/** Packages with a separate cache that use only the given servers; removed after the test file. */
export function testPackages(config: Partial<PackagesConfig> = {}, sources: Sources = findSources()): TestPackages {
  const cacheDir = config.cacheDir ?? temporaryFolder("cache");
  const workDir = join(cacheDir, "packages");
  mkdirSync(workDir, { recursive: true });
  copySnapshots(sharedDir, workDir);
  if (!existsSync(join(workDir, "deno"))) symlinkSync(join(sharedDir, "deno"), join(workDir, "deno"));
  const full: PackagesConfig = {
    cacheDir,
    pyodideBaseUrl: closedUrl,
    packageIndex: closedUrl,
    env: {},
    log: createLog("error"),
    ...config,
  };
  const packages = createPackages(full, sources);
  atEnd(() => packages.dispose());
  return {
    packages,
    cacheDir,
    config: full,
    async image(requirements, options = {}) {
      const image = await packages.image(requirements, { signal: new AbortController().signal, ...options });
      copySnapshots(workDir, sharedDir);
      return image;
    },
    leftovers: () =>
      ["drafts", "locks"].flatMap((name) => {
        const folder = join(workDir, name);
        return existsSync(folder) ? readdirSync(folder) : [];
      }),
  };
}

export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `cellwright-${name}-`));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A port that was free a moment ago, so that nothing answers there. */
export const closedUrl: string = await new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    server.close(() => resolve(`http://127.0.0.1:${port}/`));
  });
});

/** Names and versions, with where they came from. */
export function contents(image: Image): string[] {
  return image.packages.map(({ name, version, source }) => `${name} ${version} (${source})`);
}

export function fileIn(image: Image, path: string): string {
  return readFileSync(join(image.siteDir, path), "utf8");
}

/** The message and hint of a rejected promise. */
export async function failure(promise: Promise<unknown>): Promise<{ code: string; message: string; hint: string }> {
  const error = await promise.then(
    () => undefined,
    (reason) => reason,
  );
  if (!(error instanceof Error)) throw new Error("It did not fail.");
  return error as Error & { code: string; hint: string };
}

function copySnapshots(from: string, to: string): void {
  for (const name of readdirSync(from).filter((name) => name.startsWith("python-"))) {
    if (!existsSync(join(to, name))) copyFileSync(join(from, name), join(to, name));
  }
}
