import type { Store } from "../store/store.ts";
import type { Link } from "../tools/tool.ts";
import { outputPath } from "./text/texts.ts";

/** Keeps an output in the store and returns a link to it; undefined beyond the limit. */
export type Keep = (bytes: Uint8Array, mimeType: string) => Promise<Link | undefined>;

/** If the store is full, only the link is missing. */
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
