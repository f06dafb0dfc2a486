import { constants } from "node:fs";
import { access, open, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, sep } from "node:path";
import { baseName, isSensitive } from "./names.ts";
import { ReportedError } from "./session.ts";
import type { Own } from "./state-04.ts";

/** Request limit of a Jupyter server. */
const MAX_BYTES = 100 * 1024 * 1024;

/**
 * The real path of a host file that may be uploaded. `local`: the client started this process (stdio), so they share the
 * working directory.
 */
export async function findHostFile(
  hostPath: string,
  { own, local }: { own: Pick<Own, "allowedDir" | "allowAll">; local: boolean },
): Promise<string> {
  if (!isAbsolute(hostPath)) throw new ReportedError(`Host path must be absolute: ${hostPath}`);
  const { allowedDir, allowAll } = own;
  if (!local && !allowAll && allowedDir.length === 0) {
    throw new ReportedError(
      "Files of the server's machine cannot be uploaded over HTTP unless it is started with --allowed-dir",
    );
  }
  const path = await resolved(hostPath);
  if (!(await isAllowed(path, own))) {
    throw new ReportedError(`Path '${hostPath}' is outside allowed upload directories`);
  }
  if (isSensitive(path)) {
    throw new ReportedError(`Upload blocked: '${baseName(hostPath)}' matches a sensitive file pattern`);
  }
  const stats = await stat(path).catch(() => undefined);
  if (!stats) throw new ReportedError(`Host file not found: ${hostPath}`);
  if (!stats.isFile()) throw new ReportedError(`Host path is not a file: ${hostPath}`);
  await access(path, constants.R_OK).catch(() => {
    throw new ReportedError(`Permission denied: cannot read ${hostPath}`);
  });
  return path;
}

export async function readHostFile(path: string): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    if (size > MAX_BYTES) {
      const [given, most] = [size, MAX_BYTES].map((bytes) => bytes.toLocaleString("en-US"));
      const limit = `Maximum supported size is ${most} bytes (100 MB).`;
      throw new ReportedError(`File too large to upload (${given} bytes). ${limit}`);
    }
    return await file.readFile();
  } finally {
    await file.close();
  }
}

async function isAllowed(
  path: string,
  { allowedDir, allowAll }: Pick<Own, "allowedDir" | "allowAll">,
): Promise<boolean> {
  if (allowAll) return true;
  for (const dir of allowedDir.length > 0 ? allowedDir : [process.cwd()]) {
    const folder = await resolved(dir);
    if (path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)) return true;
  }
  return false;
}

/** Resolves symlinks in the part of the path that exists. */
async function resolved(path: string): Promise<string> {
  const plain = isAbsolute(path) ? path : join(process.cwd(), path);
  try {
    return await realpath(plain);
  } catch {
    const above = dirname(plain);
    return above === plain ? plain : join(await resolved(above), basename(plain));
  }
}
