import { closeSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

/** Read buffer. Listening sockets come first in the kernel's list; this holds some hundreds of them. */
const CHUNK_BYTES = 64 * 1024;
/** State of a listening socket in /proc/net/tcp. */
const LISTENING = "0A";
const ROOT = 0;

/**
 * Which user's process accepts connections to a loopback address: this user's (`own`), root's (`root`), another's or
 * unknown (`foreign`). Only Linux provides this; elsewhere all count as `own`.
 */
export function findListener(
  address: string,
  port: number,
  { read = readListeners, uid = process.getuid?.() }: { read?: typeof readListeners; uid?: number | undefined } = {},
): "own" | "root" | "foreign" {
  if (process.platform !== "linux") return "own";
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const listeners = [...read("tcp"), ...read("tcp6")];
  const at = (hosts: string[]) => listeners.filter(({ local }) => hosts.some((host) => local === host + suffix));
  // The kernel prefers a socket bound to the exact address over a wildcard one.
  const exact = at(exactForms(address));
  const uids = (exact.length > 0 ? exact : at(["0".repeat(8), "0".repeat(32)])).map((listener) => listener.uid);
  if (uids.length === 0 || uids.some((each) => each !== uid && each !== ROOT)) return "foreign";
  return uids.every((each) => each === uid) ? "own" : "root";
}

/** Whether a socket address is a loopback address. */
export function isLoopbackAddress(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127\./.test(address);
}

interface Listener {
  /** Address and port in hexadecimal. */
  local: string;
  uid: number;
}

/** The listening sockets from `tcp` or `tcp6`. Synchronous: it is a memory read, faster than the thread pool. */
function readListeners(list: string): Listener[] {
  const found: Listener[] = [];
  let file: number;
  try {
    file = openSync(`/proc/net/${list}`, "r");
  } catch {
    return found;
  }
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let rest = ""; ; ) {
      const bytes = readSync(file, chunk);
      const lines = (rest + chunk.toString("latin1", 0, bytes)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const [slot = "", local = "", , state, , , , uid] = line.trim().split(/\s+/);
        if (!slot.endsWith(":")) continue;
        if (state !== LISTENING) return found;
        found.push({ local, uid: Number(uid) });
      }
      if (bytes === 0) return found;
    }
  } finally {
    closeSync(file);
  }
}

/** How the kernel writes a loopback address: 32-bit words in memory order. */
function exactForms(address: string): string[] {
  if (address === "::1") return [hex([0, 0, 0, 1])];
  const [a = 0, b = 0, c = 0, d = 0] = address
    .replace(/^::ffff:/, "")
    .split(".")
    .map(Number);
  const word = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
  return [hex([word]), hex([0, 0, 0xffff, word])];
}

/** Words in network order. */
function hex(words: number[]): string {
  return words
    .map((word) => {
      const bytes = Buffer.alloc(4);
      if (endianness() === "LE") bytes.writeUInt32LE(word);
      else bytes.writeUInt32BE(word);
      return bytes.toString("hex").toUpperCase();
    })
    .join("");
}
