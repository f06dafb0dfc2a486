import { lstat, mkdir, readdir, readFile, rename, rm, unlink } from "node:fs/promises";
import { join, normalize } from "node:path";
import { normalName } from "../../../packages/requirement.ts";

/**
 * Moves packages into a session's overlay. Other versions of them are removed first. The `.dist-info` folders are moved
 * last, so that a recorded package is complete. Throws if anything is neither a file nor a folder.
 */
export async function moveIntoOverlay(siteDir: string, overlayDir: string): Promise<void> {
  const site = await lstat(siteDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (!site) return;
  // The installer can write to the parent folder: a symlink here would make us move the host's files.
  if (!site.isDirectory()) throw new Error(`${siteDir} is not a folder`);
  const names = await readdir(siteDir);
  if (names.length === 0) return;
  await refuseOddFiles(siteDir);
  const records = names.filter(isRecord);
  await removePackages(overlayDir, new Set(records.map(packageOf)));
  for (const name of [...names.filter((each) => !isRecord(each)), ...records]) {
    await merge(join(siteDir, name), join(overlayDir, name));
  }
}

function isRecord(name: string): boolean {
  return name.endsWith(".dist-info");
}

/** `Name-1.0.dist-info`. */
function packageOf(record: string): string {
  return normalName(record.replace(/-[^-]*\.dist-info$/, ""));
}

async function refuseOddFiles(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() && !entry.isDirectory()) throw new Error(`${entry.name} is neither a file nor a folder`);
  }
}

async function removePackages(overlayDir: string, packages: Set<string>): Promise<void> {
  const records = (await readdir(overlayDir)).filter(isRecord);
  const leaving = records.filter((record) => packages.has(packageOf(record)));
  if (leaving.length === 0) return;
  const staying = records.filter((record) => !leaving.includes(record));
  const shared = new Set((await filesOf(overlayDir, staying)).map(topOf));
  const files = await filesOf(overlayDir, leaving);
  const [common, own] = [
    files.filter((file) => shared.has(topOf(file))),
    files.filter((file) => !shared.has(topOf(file))),
  ];
  for (const file of common) await unlink(join(overlayDir, file)).catch(() => {});
  for (const top of new Set([...own.map(topOf), ...leaving]))
    await rm(join(overlayDir, top), { recursive: true, force: true });
}

/** The files listed in these packages' records. Paths outside the overlay, which should not occur, are skipped. */
async function filesOf(overlayDir: string, records: string[]): Promise<string[]> {
  const files: string[] = [];
  for (const record of records) {
    const text = await readFile(join(overlayDir, record, "RECORD"), "utf8").catch(() => "");
    for (const line of text.split(/\r?\n/).filter(Boolean)) {
      // Names that contain a comma are quoted.
      const name = /^"((?:[^"]|"")*)"/.exec(line)?.[1]?.replaceAll('""', '"') ?? line.split(",")[0] ?? "";
      const path = normalize(name);
      // With --target, pip records scripts as if they were above the folder.
      const place = path.replace(/^(\.\.\/)+(?=bin\/|share\/)/, "");
      if (!place.startsWith("..") && !place.startsWith("/") && place !== ".") files.push(place);
    }
  }
  return files;
}

function topOf(file: string): string {
  return file.split("/")[0] ?? file;
}

/** Moves new entries as a whole, and merges folders that several packages share. */
async function merge(from: string, to: string): Promise<void> {
  const there = await lstat(to).catch(() => undefined);
  const isFolder = (await lstat(from)).isDirectory();
  if (there?.isDirectory() && isFolder) {
    for (const name of await readdir(from)) await merge(join(from, name), join(to, name));
    return;
  }
  if (there && there.isDirectory() !== isFolder) await rm(to, { recursive: true });
  await rename(from, to);
}

/** The folder of a session's packages; created if missing. */
export async function openOverlay(runDir: string): Promise<string> {
  const folder = join(runDir, "packages");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}
