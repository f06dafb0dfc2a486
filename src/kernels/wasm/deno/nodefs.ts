import type { EmscriptenFs, FsAttributes } from "./pyodide.ts";
import type { Quota } from "./quota.ts";

/** Emscripten's errno values for Deno errors that have none. */
const errnos: Record<string, number> = {
  NotCapable: 2, // EACCES
  PermissionDenied: 2,
  NotFound: 44,
  AlreadyExists: 20,
  NotADirectory: 54,
  IsADirectory: 31,
  Busy: 10,
  FilesystemLoop: 32,
};
const EIO = 29;
const EPERM = 63;
const ENOSPC = 51;

/** Emscripten has no umask, and NODEFS would create files as 0666 and folders as 0777. */
const UMASK = 0o022;

/** Fixes NODEFS under Deno, and enforces the quota before each write. */
export function mendNodeFs(fs: EmscriptenFs, quota: Quota): void {
  const nodeFs = fs.filesystems.NODEFS;
  const fail = (errno: number): never => {
    throw new fs.ErrnoError(errno);
  };

  // NODEFS rethrows errors without an errno, and Pyodide crashes on them (`os.symlink`, `shutil.disk_usage`).
  const tryOperation = nodeFs.tryFSOperation;
  nodeFs.tryFSOperation = (operation) => {
    try {
      return tryOperation(operation);
    } catch (error) {
      if (error instanceof fs.ErrnoError && error.errno !== undefined) throw error;
      return fail(errnos[(error as Error | undefined)?.name ?? ""] ?? EIO);
    }
  };

  // The server could follow a link made here to anywhere.
  nodeFs.node_ops.symlink = () => fail(EPERM);

  const blockBytes = 4096;
  nodeFs.node_ops.statfs = () => ({
    bsize: blockBytes,
    frsize: blockBytes,
    blocks: Math.floor(quota.limitBytes / blockBytes),
    bfree: Math.floor(quota.freeBytes() / blockBytes),
    bavail: Math.floor(quota.freeBytes() / blockBytes),
    files: 1e6,
    ffree: 5e5,
    fsid: 42,
    flags: 2,
    namelen: 255,
  });

  const { open, mkdir } = fs;
  fs.open = (path, flags, mode = 0o666) => open.call(fs, path, flags, mode & ~UMASK);
  fs.mkdir = (path, mode = 0o777) => mkdir.call(fs, path, mode & ~UMASK);

  const spend = (bytes: number) => {
    if (!quota.spend(bytes)) fail(ENOSPC);
  };
  const { mknod, unlink, setattr } = nodeFs.node_ops;
  nodeFs.node_ops.mknod = (parent, name, mode, dev) => {
    spend(blockBytes);
    return mknod(parent, name, mode, dev);
  };
  nodeFs.node_ops.unlink = (parent, name) => {
    unlink(parent, name);
    quota.freed();
  };
  const resize = (attributes: FsAttributes) => {
    if (attributes.size) spend(attributes.size);
    else if (attributes.size === 0) quota.freed();
  };
  nodeFs.node_ops.setattr = (node, attributes) => {
    resize(attributes);
    setattr(node, attributes);
  };
  const { setattr: setStreamAttributes, write } = nodeFs.stream_ops;
  nodeFs.stream_ops.setattr = (stream, attributes) => {
    resize(attributes);
    setStreamAttributes(stream, attributes);
  };
  nodeFs.stream_ops.write = (stream, buffer, offset, length, position) => {
    spend(length);
    return write(stream, buffer, offset, length, position);
  };
}
