/** The parts of Pyodide and of Emscripten's file system that the host uses, including private ones. */

export interface Pyodide {
  FS: EmscriptenFs;
  runPython(code: string): unknown;
  pyimport(name: string): unknown;
  /** Pyodide reads the first element, and then sets it to zero whatever its value was. */
  setInterruptBuffer(buffer: { 0: number } | undefined): void;
  setStdin(options: { error: boolean }): void;
  setStdout(options: { write(bytes: Uint8Array): number }): void;
  setStderr(options: { write(bytes: Uint8Array): number }): void;
  makeMemorySnapshot(): Uint8Array;
  _api: { config: { _loadSnapshot?: unknown } };
  _module: { LDSO: { loadedLibsByName: Record<string, unknown> } };
}

export interface LoadOptions {
  indexURL: string;
  env: Record<string, string>;
  createPyodideModule?: (settings: unknown) => Promise<{ FS: EmscriptenFs }>;
  _loadSnapshot?: Uint8Array;
  _makeSnapshot?: boolean;
}

export interface EmscriptenFs {
  ErrnoError: new (errno: number) => Error & { errno?: number };
  filesystems: { NODEFS: NodeFs };
  mkdirTree(path: string): void;
  mount(type: NodeFs, options: { root: string }, at: string): void;
  chdir(path: string): void;
  open(path: string, flags: unknown, mode?: number): unknown;
  mkdir(path: string, mode?: number): unknown;
}

export interface NodeFs {
  tryFSOperation<T>(operation: () => T): T;
  node_ops: {
    mknod(parent: unknown, name: string, mode: number, dev: number): unknown;
    unlink(parent: unknown, name: string): void;
    symlink(parent: unknown, name: string, target: string): void;
    setattr(node: unknown, attributes: FsAttributes): void;
    statfs(path: string): unknown;
  };
  stream_ops: {
    setattr(stream: unknown, attributes: FsAttributes): void;
    write(stream: unknown, buffer: Uint8Array, offset: number, length: number, position?: number): number;
  };
}

export interface FsAttributes {
  size?: number;
}

/** Loads Pyodide from its folder. `indexURL` has to be a path with a trailing slash: Deno fails on a `file:` URL. */
export async function loadPyodide(pyodideDir: string, options: Omit<LoadOptions, "indexURL">): Promise<Pyodide> {
  const { loadPyodide: load } = await import(`file://${pyodideDir}/pyodide.mjs`);
  return load({ indexURL: `${pyodideDir}/`, ...options });
}

export async function moduleFactory(pyodideDir: string): Promise<(settings: unknown) => Promise<{ FS: EmscriptenFs }>> {
  return (await import(`file://${pyodideDir}/pyodide.asm.mjs`)).default;
}
