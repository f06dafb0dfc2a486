import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { createApp } from "../app.ts";
import type { Options } from "../options/options.ts";

/** The folders that Cellwright creates in its data folder. Nothing else is ever removed. */
const ownFolders = ["sessions", "cache", "envs", "state", "trash"];

/** Removes sessions, their files, environments and caches, after asking. Returns the exit code. */
export async function clean(options: Options, { yes }: { yes: boolean }): Promise<number> {
  const folders = (await Promise.all(ownFolders.map((name) => measure(join(options.dataDir, name))))).filter(
    (folder) => folder.files > 0,
  );
  if (folders.length === 0) {
    process.stdout.write(`Nothing to remove in ${options.dataDir}.\n`);
    return 0;
  }
  const inUse = await sessionsInUse(options);
  if (inUse > 0) {
    process.stderr.write(`${inUse} sessions are in use by another Cellwright. Stop it first; nothing was removed.\n`);
    return 1;
  }
  for (const folder of folders) process.stdout.write(`${folder.path}: ${folder.files} files, ${folder.megabytes} MB\n`);
  if (!yes && !(await confirm("Remove all of this, with the files of all sessions? [y/N] "))) {
    process.stdout.write("Nothing was removed.\n");
    return 1;
  }
  for (const folder of folders) await rm(folder.path, { recursive: true, force: true });
  process.stdout.write("Removed.\n");
  return 0;
}

async function sessionsInUse(options: Options): Promise<number> {
  const app = await createApp(options);
  try {
    const records = await app.store.sessions();
    const users = await Promise.all(records.map((record) => app.store.claimedBy(record.id)));
    return users.filter((user) => user !== undefined).length;
  } finally {
    await app.dispose();
  }
}

async function measure(path: string): Promise<{ path: string; files: number; megabytes: number }> {
  const names = await readdir(path, { recursive: true }).catch(() => []);
  let bytes = 0;
  for (const name of names) bytes += (await stat(join(path, name)).catch(() => undefined))?.size ?? 0;
  return { path, files: names.length, megabytes: Math.round(bytes / 1e5) / 10 };
}

async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    process.stderr.write("Cannot ask without a terminal. Use --yes.\n");
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await terminal.question(question)).trim());
  } finally {
    terminal.close();
  }
}
