import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Json } from "../../../execution.ts";
import { CHUNK_BYTES } from "../files/helper.ts";
import { askPlace, isKept, JOURNAL, look, type MirrorPlace, OUTPUTS, RECORD, RUN } from "./mirror-place.ts";

/** Identifies the disk with the session's folder: the server returns a session to it without waiting. */
const TOKEN = "mirror-token";
/** Output files are named by their content's hash, except a text that a cell is still printing. */
const contentName = /^[0-9a-f]{40}\./;

interface Piece {
  path: string;
  offset?: number;
  bytes: Uint8Array;
}

/** One session's copy on one server: tracks how much of the session's folder it has. */
export class MirrorCopy {
  readonly #place: MirrorPlace;
  readonly #sessionId: string;
  readonly #folder: string;
  /** Copied size of append-only files. */
  readonly #sizes = new Map<string, number>();
  readonly #wholes = new Map<string, Buffer>();
  #run: string;

  private constructor(place: MirrorPlace, sessionId: string, folder: string, run: string[]) {
    this.#place = place;
    this.#sessionId = sessionId;
    this.#folder = folder;
    this.#run = run.join();
  }

  /** Reads the existing copy. If its journal differs from the local one, it is put aside, not overwritten. */
  static async meet(place: MirrorPlace, sessionId: string, folder: string): Promise<MirrorCopy> {
    const { files, relation } = await compare(place, sessionId, folder);
    const run = Object.keys(files).filter((path) => path.startsWith(`${RUN}/`));
    const copy = new MirrorCopy(place, sessionId, folder, run.map((path) => path.slice(RUN.length + 1)).sort());
    for (const [path, size] of Object.entries(files)) copy.#sizes.set(path, size);
    if (relation !== "beginning") {
      await askPlace(place, "mirror_put_aside", { session: sessionId });
      copy.#sizes.delete(JOURNAL);
    }
    return copy;
  }

  /** Outputs go before the journal that refers to them. The record is last: without it, a session is not listed. */
  async push(): Promise<void> {
    const run = (await namesIn(join(this.#folder, RUN))).filter((name) => isKept(`${RUN}/${name}`)).sort();
    let batch: Piece[] = [];
    let bytes = 0;
    for await (const piece of this.#news(run)) {
      if (bytes + piece.bytes.length > CHUNK_BYTES && batch.length > 0) {
        await this.#put(batch, run);
        batch = [];
        bytes = 0;
      }
      batch.push(piece);
      bytes += piece.bytes.length;
    }
    if (batch.length > 0 || run.join() !== this.#run) await this.#put(batch, run);
    this.#run = run.join();
  }

  async *#news(run: string[]): AsyncGenerator<Piece> {
    for (const name of await namesIn(join(this.#folder, OUTPUTS))) {
      const path = `${OUTPUTS}/${name}`;
      if (isKept(path) && !(contentName.test(name) && this.#sizes.has(path))) yield* this.#tail(path);
    }
    yield* this.#tail(JOURNAL);
    for (const path of [...run.map((name) => `${RUN}/${name}`), RECORD]) {
      const bytes = await ifExists(readFile(join(this.#folder, path)));
      if (bytes && !this.#wholes.get(path)?.equals(bytes)) yield { path, bytes };
    }
  }

  async *#tail(path: string): AsyncGenerator<Piece> {
    const handle = await ifExists(open(join(this.#folder, path)));
    if (!handle) return;
    try {
      let offset = this.#sizes.get(path) ?? 0;
      const { size } = await handle.stat();
      while (offset < size) {
        const bytes = Buffer.alloc(Math.min(CHUNK_BYTES, size - offset));
        const { bytesRead } = await handle.read(bytes, 0, bytes.length, offset);
        if (bytesRead === 0) return;
        yield { path, offset, bytes: bytes.subarray(0, bytesRead) };
        offset += bytesRead;
      }
    } finally {
      await handle.close();
    }
  }

  async #put(pieces: Piece[], run: string[]): Promise<void> {
    const holder = { token: await tokenOf(this.#folder), instance: this.#place.instance };
    const packed = pieces.map(({ path, offset, bytes }): Json => {
      const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
      return offset === undefined ? { path, data } : { path, offset, data };
    });
    await askPlace(this.#place, "mirror_put", { session: this.#sessionId, holder, pieces: packed, run });
    for (const { path, offset, bytes } of pieces) {
      if (offset === undefined) this.#wholes.set(path, Buffer.from(bytes));
      else this.#sizes.set(path, offset + bytes.length);
    }
  }
}

/** Copies a session from a server into a folder. The record is last: without it, there is no session. */
export async function pullAll(place: MirrorPlace, sessionId: string, folder: string): Promise<void> {
  const { files } = await look(place, sessionId, 0);
  const paths = Object.keys(files).sort((one, other) => Number(one === RECORD) - Number(other === RECORD));
  for (const path of paths) {
    const sizeBytes = files[path] ?? 0;
    const isThere =
      contentName.test(path.slice(OUTPUTS.length + 1)) && (await sizeOf(join(folder, path))) === sizeBytes;
    if (!isThere) await pullFile(place, { sessionId, path, sizeBytes, to: join(folder, path) });
  }
}

interface PulledFile {
  sessionId: string;
  path: string;
  sizeBytes: number;
  to: string;
}

async function pullFile(place: MirrorPlace, { sessionId, path, sizeBytes, to }: PulledFile): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(to), `.${randomUUID()}.tmp`);
  const handle = await open(temporary, "wx", 0o600);
  try {
    try {
      for (let offset = 0; offset < sizeBytes; ) {
        const length = Math.min(CHUNK_BYTES, sizeBytes - offset);
        const args = { session: sessionId, path, offset, length };
        const bytes = Buffer.from((await askPlace<{ bytes: string }>(place, "mirror_get", args)).bytes, "base64");
        if (bytes.length === 0) break;
        await handle.writeFile(bytes.subarray(0, length));
        offset += bytes.length;
      }
    } finally {
      await handle.close();
    }
    await rename(temporary, to);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A server's files of a session, and whether its history is the beginning of the local one or continues it. */
export async function compare(place: MirrorPlace, sessionId: string, folder: string) {
  const ownBytes = await sizeOf(join(folder, JOURNAL));
  const { files, journal } = await look(place, sessionId, ownBytes);
  const theirBytes = files[JOURNAL] ?? 0;
  const isSame =
    theirBytes === 0 || journal === (await hashOfStart(join(folder, JOURNAL), Math.min(ownBytes, theirBytes)));
  const relation = !isSame ? "other" : theirBytes > ownBytes ? "continuation" : "beginning";
  return { files, relation } as const;
}

export async function tokenOf(folder: string): Promise<string> {
  const path = join(folder, TOKEN);
  const known = await ifExists(readFile(path, "utf8"));
  if (known) return known;
  await writeFile(path, randomUUID(), { mode: 0o600, flag: "wx" }).catch(() => {});
  return readFile(path, "utf8");
}

async function sizeOf(path: string): Promise<number> {
  return (await ifExists(stat(path)))?.size ?? 0;
}

async function hashOfStart(path: string, bytes: number): Promise<string> {
  const hash = createHash("sha256");
  if (bytes > 0) for await (const piece of createReadStream(path, { end: bytes - 1 })) hash.update(piece);
  return hash.digest("hex");
}

async function namesIn(folder: string): Promise<string[]> {
  return (await ifExists(readdir(folder))) ?? [];
}

async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
