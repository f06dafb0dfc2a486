import { Buffer } from "node:buffer";
import { kinds, RECORD_HEADER_BYTES, type RingReader, type RingRecord } from "./ring.ts";

/** Batch size, mostly one line of one stream: larger batches delay output, smaller ones cost a line per print. */
const MAX_TAKE_BYTES = 256 * 1024;
/** Largest event joined from records: the runner replaces bundles that are longer than 8 MB as JSON. */
const MAX_JOINED_BYTES = 10 * 1024 * 1024;

const NEWLINE = 10;

/** One JSON value of the worker, and the cell or question it belongs to. */
export interface Parcel {
  type: keyof typeof kinds;
  id: number;
  json: Uint8Array;
}

/** Drains the ring: joins split records, and merges small pieces of a stream. */
export class Outbox {
  readonly #ring: RingReader;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();
  #split: Uint8Array[] = [];
  #splitBytes = 0;

  constructor(ring: RingReader) {
    this.#ring = ring;
  }

  /** Takes records up to a size limit; `more` if the limit was reached. Throws on garbage. */
  take(): { parcels: Parcel[]; more: boolean } {
    const parcels: Parcel[] = [];
    let stream: { type: Parcel["type"]; id: number; pieces: Uint8Array[] } | undefined;
    let bytes = 0;
    const endStream = () => {
      if (stream) parcels.push({ type: stream.type, id: stream.id, json: this.#textAsJson(stream.pieces) });
      stream = undefined;
    };
    while (bytes < MAX_TAKE_BYTES) {
      const record = this.#ring.read();
      if (!record) break;
      // Empty records count, too: a hostile writer could keep this loop busy with them.
      bytes += RECORD_HEADER_BYTES + record.payload.length;
      const type = typeOf(record.kind);
      if (type === "stdout" || type === "stderr") {
        if (stream?.type !== type || stream.id !== record.tag) endStream();
        stream ??= { type, id: record.tag, pieces: [] };
        stream.pieces.push(record.payload);
      } else {
        endStream();
        const json = this.#join(record);
        if (json) parcels.push({ type, id: record.tag, json });
      }
    }
    endStream();
    return { parcels, more: bytes >= MAX_TAKE_BYTES };
  }

  #textAsJson(pieces: Uint8Array[]): Uint8Array {
    return this.#encoder.encode(JSON.stringify(this.#decoder.decode(Buffer.concat(pieces))));
  }

  #join(record: RingRecord): Uint8Array | undefined {
    this.#split.push(record.payload);
    this.#splitBytes += record.payload.length;
    if (this.#splitBytes > MAX_JOINED_BYTES) throw new Error("an event is too long");
    if (!record.last) return undefined;
    const json = Buffer.concat(this.#split);
    this.#split = [];
    this.#splitBytes = 0;
    if (json.includes(NEWLINE)) throw new Error("an event is more than one line");
    return json;
  }
}

function typeOf(kind: number): Parcel["type"] {
  for (const [type, number] of Object.entries(kinds)) if (number === kind) return type as Parcel["type"];
  throw new Error(`a record is of the unknown kind ${kind}`);
}
