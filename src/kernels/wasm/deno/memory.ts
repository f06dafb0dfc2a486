/**
 * Makes it possible to restore a snapshot that is larger than Pyodide's initial memory, which otherwise fails with
 * "offset is out of bounds". Grows the memory as soon as its instance exists.
 */
export function growMemoryFor(snapshot: Uint8Array): void {
  // The second word of a snapshot is the offset of the saved heap in it.
  const heapOffset = new Uint32Array(snapshot.buffer, snapshot.byteOffset, 4)[1] ?? 0;
  const neededBytes = snapshot.byteLength - heapOffset;
  const original = WebAssembly.instantiate;
  WebAssembly.instantiate = async (...args: unknown[]) => {
    const result = await original(...args);
    const memory = (result.instance ?? result).exports?.memory;
    if (memory) {
      WebAssembly.instantiate = original;
      const missing = neededBytes - memory.buffer.byteLength;
      if (missing > 0) memory.grow(Math.ceil(missing / PAGE_BYTES));
    }
    return result;
  };
}

const PAGE_BYTES = 65536;

interface Instance {
  exports?: { memory?: { buffer: ArrayBuffer; grow(pages: number): number } };
}

declare const WebAssembly: { instantiate: (...args: unknown[]) => Promise<Instance & { instance?: Instance }> };
