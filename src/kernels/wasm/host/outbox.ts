import { boundedError } from "./bounds.ts";
import type { Report } from "./frames.ts";
import { kinds, RECORD_HEADER_BYTES, type RingReader, type RingRecord } from "./ring.ts";

/** What is sent at once, mostly as one line of one stream: more would hold it up, less costs a line per print. */
const MAX_TAKE_BYTES = 256 * 1024;
/** Largest event put together from records: the runner replaces bundles that are longer than 8 MB as JSON. */
const MAX_JOINED_BYTES = 10 * 1024 * 1024;

/** Turns records of the ring into reports: joins split records, and the many small pieces of a stream into few. */
export class Outbox {
  readonly #ring: RingReader;
  readonly #decoder = new TextDecoder();
  #split: Uint8Array[] = [];
  #splitBytes = 0;

  constructor(ring: RingReader) {
    this.#ring = ring;
  }

  /** Reports for what is in the ring, up to a limit; `more` when the limit was reached. Throws on garbage. */
  take(): { reports: Report[]; more: boolean } {
    const reports: Report[] = [];
    let stream: { kind: number; tag: number; pieces: Uint8Array[] } | undefined;
    let bytes = 0;
    const endStream = () => {
      if (stream) reports.push(this.#streamReport(stream.kind, stream.tag, stream.pieces));
      stream = undefined;
    };
    while (bytes < MAX_TAKE_BYTES) {
      const record = this.#ring.read();
      if (!record) break;
      // An empty record counts too, or a hostile writer could keep this loop going.
      bytes += RECORD_HEADER_BYTES + record.payload.length;
      if (record.kind === kinds.stdout || record.kind === kinds.stderr) {
        if (stream?.kind !== record.kind || stream.tag !== record.tag) endStream();
        stream ??= { kind: record.kind, tag: record.tag, pieces: [] };
        stream.pieces.push(record.payload);
      } else {
        endStream();
        const report = this.#jsonReport(record);
        if (report) reports.push(report);
      }
    }
    endStream();
    return { reports, more: bytes >= MAX_TAKE_BYTES };
  }

  #streamReport(kind: number, cell: number, pieces: Uint8Array[]): Report {
    const name = kind === kinds.stdout ? "stdout" : "stderr";
    return { type: "stream", cell, name, text: this.#decoder.decode(joined(pieces)) };
  }

  #jsonReport(record: RingRecord): Report | undefined {
    this.#split.push(record.payload);
    this.#splitBytes += record.payload.length;
    if (this.#splitBytes > MAX_JOINED_BYTES) throw new Error("an event is too long");
    if (!record.last) return undefined;
    const value: unknown = JSON.parse(this.#decoder.decode(joined(this.#split)));
    this.#split = [];
    this.#splitBytes = 0;
    if (record.kind === kinds.event) return { type: "event", cell: record.tag, event: bounded(value) };
    if (record.kind === kinds.answer) return { type: "answer", id: record.tag, answer: value };
    throw new Error(`a record is of the unknown kind ${record.kind}`);
  }
}

/** Forged exceptions end here, before each of them costs our process its size three times over. */
function bounded(event: unknown): unknown {
  const { type, ...texts } = Object(event);
  return type === "error" ? { ...boundedError(texts), type } : event;
}

function joined(pieces: Uint8Array[]): Uint8Array {
  if (pieces.length === 1 && pieces[0]) return pieces[0];
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
