import type { MessageHeader } from "./message.ts";

/** Whose message it is: of what runs or was asked, of a cell that is over, or of nothing that is known. */
export type Parentage = "asked" | "late" | "unknown";

/** What is known of a message before its content has been looked at. */
export interface Envelope {
  parent: Partial<MessageHeader>;
  /** All of its frames. */
  bytes: number;
}

/** `drop`: unread. `end`: so much of it came that its kernel must not go on. */
export type Verdict = "take" | "drop" | "end";

const MB = 1_000_000;
/** Text comes in pieces below this. What is larger is a display, and may be values that take long to read. */
const LARGE_BYTES = 256_000;
/**
 * What may come at once, and what all the time. A cell shows 64 million characters at most (host/output.py), of which JSON
 * may make six bytes each, and the session keeps 16 million of what it displays; of late output it keeps far less, but a
 * thread that prints for days is heard.
 */
const ALLOWANCES = {
  asked: {
    text: { capacityBytes: 512 * MB, bytesPerSecond: 64 * MB },
    large: { capacityBytes: 128 * MB, bytesPerSecond: 16 * MB },
  },
  unasked: {
    text: { capacityBytes: 128 * MB, bytesPerSecond: 8 * MB },
    large: { capacityBytes: 16 * MB, bytesPerSecond: MB / 2 },
  },
};
/** Reading what is dropped takes time, too. Beyond this it is no accident. */
const MAX_DROPPED_BYTES = 256 * MB;
/** What a message costs beside its bytes. */
const MESSAGE_COST_BYTES = 512;
/** As small as what a kernel says of itself: of nothing known only this is read, and of a running cell always. */
const SMALL_BYTES = 64_000;

/** Bytes that may pass at once, and how fast that many may again. */
export class Allowance {
  readonly #capacityBytes: number;
  readonly #bytesPerSecond: number;
  readonly #now: () => number;
  #leftBytes: number;
  #countedAt: number;

  constructor({ capacityBytes, bytesPerSecond }: { capacityBytes: number; bytesPerSecond: number }, now: () => number) {
    this.#capacityBytes = capacityBytes;
    this.#bytesPerSecond = bytesPerSecond;
    this.#now = now;
    this.#leftBytes = capacityBytes;
    this.#countedAt = now();
  }

  /** Takes bytes off, and returns what is left; below nothing it is what was too much. */
  spend(bytes: number): number {
    const now = this.#now();
    const gained = ((now - this.#countedAt) / 1_000) * this.#bytesPerSecond;
    this.#leftBytes = Math.min(this.#capacityBytes, this.#leftBytes + gained) - bytes;
    this.#countedAt = now;
    return this.#leftBytes;
  }
}

/** Decides which messages of a kernel are worth reading: code in it can send anything, at any time, signed. */
export class MessageGate {
  /** Until somebody knows better, everything may be an answer. */
  judge: (parentId: string | undefined) => Parentage = () => "late";
  readonly #allowances: Record<"asked" | "unasked", Record<"text" | "large", Allowance>>;

  constructor(now: () => number = () => performance.now()) {
    const open = ({ text, large }: (typeof ALLOWANCES)["asked"]) => ({
      text: new Allowance(text, now),
      large: new Allowance(large, now),
    });
    this.#allowances = { asked: open(ALLOWANCES.asked), unasked: open(ALLOWANCES.unasked) };
  }

  admit({ parent, bytes }: Envelope): Verdict {
    const parentage = this.judge(parent.msg_id);
    const isAsked = parentage === "asked";
    const { text, large } = this.#allowances[isAsked ? "asked" : "unasked"];
    const left = (bytes > LARGE_BYTES ? large : text).spend(bytes + MESSAGE_COST_BYTES);
    if (left < -MAX_DROPPED_BYTES) return "end";
    if (bytes <= SMALL_BYTES && (isAsked || left >= 0)) return "take";
    return left < 0 || parentage === "unknown" ? "drop" : "take";
  }
}
