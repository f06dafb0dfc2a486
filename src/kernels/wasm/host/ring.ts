/**
 * One-way queue of records in shared memory, from the worker (which may be deep in a synchronous cell) to the
 * supervisor. A full ring makes the writer wait: that is the back-pressure which keeps memory flat under a flood.
 *
 * The reader trusts nothing in it: JavaScript run by a cell can reach this memory and write garbage.
 */

const RING_BYTES = 1 << 20;
export const RECORD_HEADER_BYTES = 12;
/** Largest payload of one record; longer ones are split and joined again by the reader. */
export const MAX_RECORD_BYTES = 1 << 16;

/** Words of the header, before the ring itself. */
const WRITTEN = 0;
const READ = 1;
const READER_IDLE = 2;
const BEATS = 3;
const HEADER_BYTES = 64;

/** Longest wait for room without a heartbeat: a writer kept waiting by a slow reader must not look dead. */
const BEAT_WHILE_WAITING_MS = 50;

export const kinds = { stdout: 1, stderr: 2, event: 3, answer: 4 } as const;
export type Kind = (typeof kinds)[keyof typeof kinds];

export interface RingRecord {
  kind: number;
  /** The cell, or for an answer the question, that this belongs to. */
  tag: number;
  /** False when the next record continues this one. */
  last: boolean;
  payload: Uint8Array;
}

export function createRing(): SharedArrayBuffer {
  return new SharedArrayBuffer(HEADER_BYTES + RING_BYTES);
}

export class RingWriter {
  readonly #header: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #ringDoorbell: () => void;
  readonly #recordHeader = new Uint8Array(RECORD_HEADER_BYTES);
  readonly #fields = new DataView(this.#recordHeader.buffer);

  constructor(shared: SharedArrayBuffer, ringDoorbell: () => void) {
    this.#header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.#bytes = new Uint8Array(shared, HEADER_BYTES, RING_BYTES);
    this.#ringDoorbell = ringDoorbell;
  }

  /** Says that the worker lives, where it does not come to its event loop. */
  beat(): void {
    Atomics.add(this.#header, BEATS, 1);
  }

  write(kind: Kind, tag: number, payload: Uint8Array): void {
    let start = 0;
    do {
      const end = Math.min(start + MAX_RECORD_BYTES, payload.length);
      this.#writeRecord(kind, tag, payload.subarray(start, end), end === payload.length);
      start = end;
    } while (start < payload.length);
  }

  #writeRecord(kind: Kind, tag: number, payload: Uint8Array, last: boolean): void {
    const size = RECORD_HEADER_BYTES + payload.length;
    this.#waitForRoom(size);
    const at = Atomics.load(this.#header, WRITTEN);
    this.#fields.setUint32(0, payload.length, true);
    this.#fields.setUint16(4, kind, true);
    this.#fields.setUint16(6, last ? 1 : 0, true);
    this.#fields.setUint32(8, tag, true);
    this.#copyIn(at, this.#recordHeader);
    this.#copyIn(at + RECORD_HEADER_BYTES, payload);
    Atomics.store(this.#header, WRITTEN, (at + size) | 0);
    this.beat();
    if (Atomics.exchange(this.#header, READER_IDLE, 0) === 1) this.#ringDoorbell();
  }

  #waitForRoom(size: number): void {
    for (;;) {
      const read = Atomics.load(this.#header, READ);
      const used = (Atomics.load(this.#header, WRITTEN) - read) >>> 0;
      if (RING_BYTES - used >= size) return;
      this.beat();
      Atomics.wait(this.#header, READ, read, BEAT_WHILE_WAITING_MS);
    }
  }

  #copyIn(at: number, source: Uint8Array): void {
    const start = (at >>> 0) % RING_BYTES;
    const untilEnd = RING_BYTES - start;
    if (source.length <= untilEnd) {
      this.#bytes.set(source, start);
    } else {
      this.#bytes.set(source.subarray(0, untilEnd), start);
      this.#bytes.set(source.subarray(untilEnd), 0);
    }
  }
}

export class RingReader {
  readonly #header: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(shared: SharedArrayBuffer) {
    this.#header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.#bytes = new Uint8Array(shared, HEADER_BYTES, RING_BYTES);
  }

  get beats(): number {
    return Atomics.load(this.#header, BEATS);
  }

  /** The next record, or nothing. Throws where the ring holds what no writer of ours wrote. */
  read(): RingRecord | undefined {
    const at = Atomics.load(this.#header, READ);
    const used = (Atomics.load(this.#header, WRITTEN) - at) >>> 0;
    if (used === 0) return undefined;
    if (used < RECORD_HEADER_BYTES || used > RING_BYTES) throw new Error("the ring is out of step");
    const fields = new DataView(this.#copyOut(at, RECORD_HEADER_BYTES).buffer);
    const length = fields.getUint32(0, true);
    if (length > MAX_RECORD_BYTES || RECORD_HEADER_BYTES + length > used) throw new Error("a record is out of bounds");
    const payload = this.#copyOut(at + RECORD_HEADER_BYTES, length);
    Atomics.store(this.#header, READ, (at + RECORD_HEADER_BYTES + length) | 0);
    Atomics.notify(this.#header, READ);
    return {
      kind: fields.getUint16(4, true),
      last: fields.getUint16(6, true) === 1,
      tag: fields.getUint32(8, true),
      payload,
    };
  }

  /**
   * Asks to be woken by the doorbell. False when something came in meanwhile: read on instead. The flag is set before
   * the look, so that a writer sees the flag or this look sees its record.
   */
  goIdle(): boolean {
    Atomics.store(this.#header, READER_IDLE, 1);
    if (Atomics.load(this.#header, WRITTEN) === Atomics.load(this.#header, READ)) return true;
    return Atomics.exchange(this.#header, READER_IDLE, 0) === 0;
  }

  #copyOut(at: number, length: number): Uint8Array<ArrayBuffer> {
    const copy = new Uint8Array(length);
    const start = (at >>> 0) % RING_BYTES;
    const untilEnd = RING_BYTES - start;
    if (length <= untilEnd) {
      copy.set(this.#bytes.subarray(start, start + length));
    } else {
      copy.set(this.#bytes.subarray(start), 0);
      copy.set(this.#bytes.subarray(0, length - untilEnd), untilEnd);
    }
    return copy;
  }
}
