import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, mkdir, open, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** 256 bits: cannot be found by brute force. */
const TOKEN_BYTES = 32;
/** Shorter tokens are open to brute force. */
export const MIN_TOKEN_CHARS = 16;
const MAX_FILE_BYTES = 4_096;

/**
 * The token kept in a file, generated on first use. The file is created atomically, so that programs that start at the
 * same time get the same token. Throws if the file cannot be trusted.
 */
export async function ownToken(file: string): Promise<string> {
  const known = await readToken(file);
  if (known !== undefined) return known;
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, `${randomBytes(TOKEN_BYTES).toString("base64url")}\n`, { flag: "wx", mode: 0o600 });
    // Fails if the file exists: another program won the race, and its token counts.
    await link(draft, file).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") return;
      // A file system without hard links. A race between two first starts remains; the last one wins.
      await rename(draft, file);
    });
  } finally {
    await rm(draft, { force: true });
  }
  const token = await readToken(file);
  if (token === undefined) throw new Error(`\`${file}\` was removed while it was being created`);
  return token;
}

async function readToken(file: string): Promise<string | undefined> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw new Error(`cannot read the token in \`${file}\` (${error.code ?? error.message})`);
    },
  );
  if (!handle) return undefined;
  try {
    const stats = await handle.stat();
    const isShared = process.platform !== "win32" && ((stats.mode & 0o077) !== 0 || stats.uid !== process.getuid?.());
    if (!stats.isFile() || isShared) {
      throw new Error(`\`${file}\` is not a file that only you can read: remove it to generate a new token`);
    }
    const text = stats.size > MAX_FILE_BYTES ? "" : (await handle.readFile("utf8")).trim();
    if (text.length < MIN_TOKEN_CHARS || /[\s,]/.test(text)) {
      throw new Error(`\`${file}\` does not hold a token: remove it to generate a new one`);
    }
    return text;
  } finally {
    await handle.close();
  }
}
