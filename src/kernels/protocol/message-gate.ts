import type { MessageHeader } from "./message.ts";

/** `asked`: belongs to the running cell or a pending question. `late`: to an earlier cell. `unknown`: neither. */
export type Parentage = "asked" | "late" | "unknown";

/** What is known about a message before its content is parsed. */
export interface Envelope {
  parent: Partial<MessageHeader>;
  /** Total size of its frames. */
  bytes: number;
}

/** `drop`: do not parse it. `end`: far over the limit, so the kernel has to be ended. */
export type Verdict = "take" | "drop" | "end";

const MB = 1_000_000;
/** Text arrives in smaller pieces. Larger messages are displays, which may be slow to parse. */
const LARGE_BYTES = 256_000;
/**
 * Bursts and sustained rates. A cell shows at most 64 Mi characters (python/prelude/cell_output.py), each up to six
 * bytes in JSON, and the session keeps 16 million of its displays. Of late output it keeps far less, but a thread that
 * prints for days must get through.
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
/** Dropped messages cost time, too. More than this is an attack. */
const MAX_DROPPED_BYTES = 256 * MB;
/** Overhead of one message, in bytes. */
const MESSAGE_COST_BYTES = 512;
/** The size of status messages. With unknown parents, only these are accepted; of a running cell, always. */
const SMALL_BYTES = 64_000;

/** A token bucket of bytes. */
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

  /** Subtracts bytes and returns the rest; negative by how much the limit is exceeded. */
  spend(bytes: number): number {
    const now = this.#now();
    const gained = ((now - this.#countedAt) / 1_000) * this.#bytesPerSecond;
    this.#leftBytes = Math.min(this.#capacityBytes, this.#leftBytes + gained) - bytes;
    this.#countedAt = now;
    return this.#leftBytes;
  }
}

/** Decides which of a kernel's messages to parse: its code can send anything, at any time, validly signed. */
export class MessageGate {
  /** Until a judge is set, any message may be an answer. */
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
