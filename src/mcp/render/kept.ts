import type { Store } from "../../store/store.ts";
import type { Link } from "../tool.ts";
import { outputPath } from "./texts.ts";

/** Keeps outputs of a session in the store, so many of them, and returns links to them. */
export type Keep = (bytes: Uint8Array, mimeType: string) => Promise<Link | undefined>;

/** A store that is full costs a link and nothing else. */
export function createKeep(sessionId: string, store: Store, { limit }: { limit: number }): Keep {
  let left = limit;
  return async (bytes, mimeType) => {
    if (left <= 0) return undefined;
    left -= 1;
    try {
      const uri = await store.putBlob(sessionId, bytes, mimeType);
      return { uri, name: outputPath(uri), mimeType, sizeBytes: bytes.length };
    } catch {
      return undefined;
    }
  };
}
