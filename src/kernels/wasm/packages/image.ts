import { createHash } from "node:crypto";
import { chmodSync, lstatSync } from "node:fs";
import { lstat, open, readdir, readFile, utimes } from "node:fs/promises";
import { basename, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { ResolvedPackage } from "../deno/install/frames.ts";
import type { Sources } from "../sources.ts";

/** Part of every id: increase it when the way of building images changes. */
const FORMAT = 1;
const MANIFEST = "image.json";
/** Files per turn of the event loop: about a millisecond. */
const BATCH = 256;

/** Unpacked and compiled packages in a folder that never changes. */
export interface Image {
  id: string;
  /** Folder for `sys.path`. */
  siteDir: string;
  packages: { name: string; version: string; source: ResolvedPackage["source"] }[];
  requirements: string[];
  createdAt: string;
  sizeBytes: number;
}

/** Written last: a folder without it, or with a wrong hash in it, is not an image. */
interface Manifest {
  format: number;
  id: string;
  requirements: string[];
  createdAt: string;
  lock: ResolvedPackage[];
  files: [path: string, sizeBytes: number][];
}

export interface SealedImage extends Image {
  files: [path: string, sizeBytes: number][];
}

/** The same packages for the same interpreter are the same image, however the requirements are written. */
export function imageId(lock: ResolvedPackage[], sources: Sources): string {
  const packages = lock.map(({ name, version, sha256 }) => [name, version, sha256]).sort();
  const parts = JSON.stringify([FORMAT, sources.versions, packages]);
  return createHash("sha256").update(parts).digest("hex").slice(0, 24);
}

/** Turns a folder with a `site` into an image. */
export async function seal(
  folder: string,
  { id, lock, requirements }: { id: string; lock: ResolvedPackage[]; requirements: string[] },
): Promise<void> {
  const siteDir = join(folder, "site");
  const files: Manifest["files"] = [];
  for (const entry of await readdir(siteDir, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile()) throw new Error(`${path} is not a file`);
    chmodSync(path, 0o444);
    files.push([path.slice(siteDir.length + 1).replaceAll("\\", "/"), lstatSync(path).size]);
    if (files.length % BATCH === 0) await setImmediate();
  }
  files.sort(([a], [b]) => (a < b ? -1 : 1));
  const manifest: Manifest = { format: FORMAT, id, requirements, createdAt: new Date().toISOString(), lock, files };
  await writeThrough(join(folder, "lock.json"), `${JSON.stringify(lock, undefined, 1)}\n`);
  const text = JSON.stringify(manifest);
  await writeThrough(join(folder, MANIFEST), `${hashOf(text)}\n${text}`);
}

/** The image in a folder, if it is complete: every file exists and has its recorded size. */
export async function openImage(folder: string): Promise<SealedImage | undefined> {
  const manifest = await readManifest(folder);
  if (!manifest) return undefined;
  const siteDir = join(folder, "site");
  for (const [index, [path, sizeBytes]] of manifest.files.entries()) {
    const found = lstatSync(join(siteDir, path), { throwIfNoEntry: false });
    if (!found?.isFile() || found.size !== sizeBytes) return undefined;
    if (index % BATCH === BATCH - 1) await setImmediate();
  }
  return { ...describe(folder, manifest), files: manifest.files };
}

/** Reads the manifest, without checking the files. */
export async function describeImage(folder: string): Promise<(Image & { usedMs: number }) | undefined> {
  const manifest = await readManifest(folder);
  const found = await lstat(join(folder, MANIFEST)).catch(() => undefined);
  return manifest && found ? { ...describe(folder, manifest), usedMs: found.mtimeMs } : undefined;
}

/** Records the time of use, for pruning. */
export async function touchImage(folder: string): Promise<void> {
  const now = new Date();
  await utimes(join(folder, MANIFEST), now, now).catch(() => {});
}

function describe(folder: string, { id, lock, requirements, createdAt, files }: Manifest): Image {
  return {
    id,
    siteDir: join(folder, "site"),
    packages: lock.map(({ name, version, source }) => ({ name, version, source })),
    requirements,
    createdAt,
    sizeBytes: files.reduce((sum, [, sizeBytes]) => sum + sizeBytes, 0),
  };
}

async function readManifest(folder: string): Promise<Manifest | undefined> {
  const content = await readFile(join(folder, MANIFEST), "utf8").catch(() => "");
  const end = content.indexOf("\n");
  const text = content.slice(end + 1);
  if (end < 0 || content.slice(0, end) !== hashOf(text)) return undefined;
  const manifest: Manifest = JSON.parse(text);
  return manifest.format === FORMAT && manifest.id === basename(folder) ? manifest : undefined;
}

/** Synced to disk: a power cut must not leave a manifest without content. */
async function writeThrough(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o644);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
