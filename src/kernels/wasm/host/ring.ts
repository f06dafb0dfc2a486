/**
 * One-way queue of records in shared memory, from the worker (which may be deep in a synchronous cell) to the
 * supervisor. A full ring makes the writer wait: that is the back-pressure which keeps memory flat under a flood.
 *
 * The reader trusts nothing in it: JavaScript run by a cell can reach this memory and write garbage.
 */

const RING_BYTES = 1 << 20;
export const RECORD_HEADER_BYTES = 12;
/** In the second word of a record, beside its kind: no more records follow for this payload. */
const LAST_FLAG = 1 << 8;
/** Largest payload of one record; longer ones are split and joined again by the reader. */
export const MAX_RECORD_BYTES = 1 << 16;

/** Words of the header, before the ring itself. */
const WRITTEN = 0;
const READ = 1;
const READER_STATE = 2;
const BEATS = 3;
/** Counts records that cannot wait: everything but streams. */
const URGENT = 4;
/** Counts the times that the worker came to its event loop. */
const TURNS = 5;
const HEADER_BYTES = 64;

/** What the reader does when it has read everything. */
const READING = 0;
/** It looks again by itself soon: only what cannot wait is worth the price of waking it. */
const DOZING = 1;
/** It does nothing until it is woken. */
const ASLEEP = 2;

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
  readonly #ring: Ring;
  readonly #ringDoorbell: () => void;

  constructor(shared: SharedArrayBuffer, ringDoorbell: () => void) {
    this.#header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.#ring = new Ring(shared);
    this.#ringDoorbell = ringDoorbell;
  }

  /** Says that the worker lives, where it does not come to its event loop. */
  beat(): void {
    Atomics.add(this.#header, BEATS, 1);
  }

  /** Says that the worker is in its event loop, and not in a synchronous cell. */
  turn(): void {
    Atomics.add(this.#header, TURNS, 1);
    this.beat();
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

  /** Wakes a reader that is at least this far gone. */
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

  get turns(): number {
    return Atomics.load(this.#header, TURNS);
  }

  /** The next record, or nothing. Throws where the ring holds what no writer of ours wrote. */
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
    // A writer only waits when the ring is full; a call per record would cost more than the reading.
    if (used > RING_BYTES / 2) Atomics.notify(this.#header, READ);
    const kind = flags & ~LAST_FLAG;
    if (isUrgent(kind)) this.#urgentRead = (this.#urgentRead + 1) | 0;
    return { kind, tag, last: (flags & LAST_FLAG) !== 0, payload };
  }

  /**
   * Asks to be woken by the doorbell for anything. False when something came in meanwhile: read on instead. The state
   * is set before the look, so that a writer sees the state or this look sees its record.
   */
  sleep(): boolean {
    Atomics.store(this.#header, READER_STATE, ASLEEP);
    if (Atomics.load(this.#header, WRITTEN) === Atomics.load(this.#header, READ)) return true;
    return this.#wakeUp();
  }

  /** Asks to be woken for what cannot wait. The caller looks again soon for streams, which then come in bulk. */
  doze(): boolean {
    Atomics.store(this.#header, READER_STATE, DOZING);
    if (Atomics.load(this.#header, URGENT) === this.#urgentRead) return true;
    return this.#wakeUp();
  }

  /** True when the writer was faster: its doorbell is on the way. */
  #wakeUp(): boolean {
    return Atomics.exchange(this.#header, READER_STATE, READING) === READING;
  }
}

/** The memory itself, addressed by counters that run on past its end. Records begin at multiples of four. */
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
