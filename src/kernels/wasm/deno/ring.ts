/**
 * One-way queue of records in shared memory, from the worker (which may be deep in a synchronous cell) to the
 * supervisor. A full ring blocks the writer: this back-pressure keeps memory use constant under a flood.
 *
 * The reader trusts nothing in it: JavaScript run by a cell can write garbage to this memory.
 */

const RING_BYTES = 1 << 20;
export const RECORD_HEADER_BYTES = 12;
/** In the second word of a record, beside its kind: this is the last record of the payload. */
const LAST_FLAG = 1 << 8;
/** Largest payload of one record; longer payloads are split, and joined by the reader. */
export const MAX_RECORD_BYTES = 1 << 16;

/** Words of the header, before the ring. */
const WRITTEN = 0;
const READ = 1;
const READER_STATE = 2;
const BEATS = 3;
/** Number of urgent records: everything but streams. */
const URGENT = 4;
const HEADER_BYTES = 64;

/** States of the reader. */
const READING = 0;
/** It polls again soon: only urgent records are worth a wake-up. */
const DOZING = 1;
/** It waits for a wake-up. */
const ASLEEP = 2;

/** Heartbeat interval while waiting for space: a writer that is blocked by a slow reader must not look dead. */
const BEAT_WHILE_WAITING_MS = 50;

export const kinds = { stdout: 1, stderr: 2, event: 3, done: 4, fatal: 5, answer: 6 } as const;
export type Kind = (typeof kinds)[keyof typeof kinds];

export interface RingRecord {
  kind: number;
  /** The cell, or for an answer the question, that this belongs to. */
  tag: number;
  /** False if the next record continues this one. */
  last: boolean;
  payload: Uint8Array;
}

export function createRing(): SharedArrayBuffer {
  return new SharedArrayBuffer(HEADER_BYTES + RING_BYTES);
}

export class RingWriter {
  readonly #header: Int32Array;
  readonly #ring: Ring;
  readonly #ringDoorbell: () => void;

  constructor(shared: SharedArrayBuffer, ringDoorbell: () => void) {
    this.#header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.#ring = new Ring(shared);
    this.#ringDoorbell = ringDoorbell;
  }

  /** Heartbeat of the worker. */
  beat(): void {
    Atomics.add(this.#header, BEATS, 1);
  }

  write(kind: Kind, tag: number, payload: Uint8Array): void {
    let start = 0;
    do {
      const end = Math.min(start + MAX_RECORD_BYTES, payload.length);
      const piece = start === 0 && end === payload.length ? payload : payload.subarray(start, end);
      this.#writeRecord(kind, tag, piece, end === payload.length);
      start = end;
    } while (start < payload.length);
  }

  #writeRecord(kind: Kind, tag: number, payload: Uint8Array, last: boolean): void {
    const size = recordBytes(payload.length);
    this.#waitForRoom(size);
    const at = Atomics.load(this.#header, WRITTEN);
    this.#ring.setWord(at, payload.length);
    this.#ring.setWord(at + 4, kind | (last ? LAST_FLAG : 0));
    this.#ring.setWord(at + 8, tag);
    this.#ring.copyIn(at + RECORD_HEADER_BYTES, payload);
    Atomics.store(this.#header, WRITTEN, (at + size) | 0);
    this.beat();
    if (isUrgent(kind)) Atomics.add(this.#header, URGENT, 1);
    this.#wakeReader(isUrgent(kind) ? DOZING : ASLEEP);
  }

  /** Wakes the reader if it is in this state or a deeper one. */
  #wakeReader(state: number): void {
    if (Atomics.load(this.#header, READER_STATE) < state) return;
    if (Atomics.exchange(this.#header, READER_STATE, READING) !== READING) this.#ringDoorbell();
  }

  #waitForRoom(size: number): void {
    for (;;) {
      const read = Atomics.load(this.#header, READ);
      const used = (Atomics.load(this.#header, WRITTEN) - read) >>> 0;
      if (RING_BYTES - used >= size) return;
      this.#wakeReader(DOZING);
      this.beat();
      Atomics.wait(this.#header, READ, read, BEAT_WHILE_WAITING_MS);
    }
  }
}

export class RingReader {
  readonly #header: Int32Array;
  readonly #ring: Ring;
  #urgentRead = 0;

  constructor(shared: SharedArrayBuffer) {
    this.#header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.#ring = new Ring(shared);
  }

  get beats(): number {
    return Atomics.load(this.#header, BEATS);
  }

  /** The next record, if there is one. Throws on anything that `RingWriter` does not write. */
  read(): RingRecord | undefined {
    const at = Atomics.load(this.#header, READ);
    const used = (Atomics.load(this.#header, WRITTEN) - at) >>> 0;
    if (used === 0) return undefined;
    if (at % 4 !== 0 || used < RECORD_HEADER_BYTES || used > RING_BYTES) throw new Error("the ring is out of step");
    const length = this.#ring.word(at);
    const size = recordBytes(length);
    if (length < 0 || length > MAX_RECORD_BYTES || size > used) throw new Error("a record is out of bounds");
    const flags = this.#ring.word(at + 4);
    const tag = this.#ring.word(at + 8) >>> 0;
    const payload = this.#ring.copyOut(at + RECORD_HEADER_BYTES, length);
    Atomics.store(this.#header, READ, (at + size) | 0);
    // A writer waits only when the ring is full; a notify per record would cost more than reading.
    if (used > RING_BYTES / 2) Atomics.notify(this.#header, READ);
    const kind = flags & ~LAST_FLAG;
    if (isUrgent(kind)) this.#urgentRead = (this.#urgentRead + 1) | 0;
    return { kind, tag, last: (flags & LAST_FLAG) !== 0, payload };
  }

  /**
   * Requests a wake-up for any record. False if a record arrived meanwhile: continue reading. The state is set before
   * the check, so that either the writer sees the state or the check sees the record.
   */
  sleep(): boolean {
    Atomics.store(this.#header, READER_STATE, ASLEEP);
    if (Atomics.load(this.#header, WRITTEN) === Atomics.load(this.#header, READ)) return true;
    return this.#wakeUp();
  }

  /** Requests a wake-up for urgent records only. The caller polls for streams, which then arrive in bulk. */
  doze(): boolean {
    Atomics.store(this.#header, READER_STATE, DOZING);
    if (Atomics.load(this.#header, URGENT) === this.#urgentRead) return true;
    return this.#wakeUp();
  }

  /** True if the writer was faster: its doorbell is on the way. */
  #wakeUp(): boolean {
    return Atomics.exchange(this.#header, READER_STATE, READING) === READING;
  }
}

/** The ring's memory, addressed by counters that wrap around. Records start at multiples of four. */
class Ring {
  readonly #bytes: Uint8Array;
  readonly #words: Int32Array;

  constructor(shared: SharedArrayBuffer) {
    this.#bytes = new Uint8Array(shared, HEADER_BYTES, RING_BYTES);
    this.#words = new Int32Array(shared, HEADER_BYTES, RING_BYTES / 4);
  }

  word(at: number): number {
    return this.#words[((at >>> 0) % RING_BYTES) / 4] ?? 0;
  }

  setWord(at: number, value: number): void {
    this.#words[((at >>> 0) % RING_BYTES) / 4] = value;
  }

  copyIn(at: number, source: Uint8Array): void {
    const start = (at >>> 0) % RING_BYTES;
    const untilEnd = RING_BYTES - start;
    if (source.length <= untilEnd) {
      this.#bytes.set(source, start);
    } else {
      this.#bytes.set(source.subarray(0, untilEnd), start);
      this.#bytes.set(source.subarray(untilEnd), 0);
    }
  }

  copyOut(at: number, length: number): Uint8Array<ArrayBuffer> {
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

function recordBytes(payloadBytes: number): number {
  return RECORD_HEADER_BYTES + Math.ceil(payloadBytes / 4) * 4;
}

function isUrgent(kind: number): boolean {
  return kind !== kinds.stdout && kind !== kinds.stderr;
}
