/** The Deno globals that the host files use. Declared in a module, so that the Node side never sees them. */

interface DenoNamespace {
  readonly args: string[];
  readonly stdin: { readonly readable: AsyncIterable<Uint8Array> };
  readonly stdout: { write(bytes: Uint8Array): Promise<number> };
  memoryUsage(): { rss: number };
  exit(code?: number): never;
  readFileSync(path: string): Uint8Array<ArrayBuffer>;
  readTextFileSync(path: string): string;
  writeFileSync(path: string, bytes: Uint8Array): void;
}

interface WorkerPermissions {
  read: string[] | false;
  write: "inherit" | false;
  net: false;
  env: false;
  run: false;
  sys: false;
  ffi: false;
  import: false;
}

interface DenoWorker {
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: { message: string; preventDefault(): void }) => void) | null;
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void;
}

interface WorkerScope {
  onmessage: ((event: { data: unknown }) => void) | null;
  postMessage(message: unknown): void;
}

declare const Deno: DenoNamespace;
declare const Worker: new (
  module: URL,
  options: { type: "module"; deno: { permissions: WorkerPermissions } },
) => DenoWorker;

export const deno = Deno;

/** A worker's connection to its creator. */
export const workerScope = globalThis as unknown as WorkerScope;

export function startWorker(module: URL, permissions: WorkerPermissions): DenoWorker {
  return new Worker(module, { type: "module", deno: { permissions } });
}
