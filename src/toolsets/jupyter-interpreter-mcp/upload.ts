import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { isAbsolute, sep } from "node:path";
import { realPath } from "../real-path.ts";
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
  const path = realPath(hostPath);
  if (!isAllowed(path, own)) {
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

function isAllowed(path: string, { allowedDir, allowAll }: Pick<Own, "allowedDir" | "allowAll">): boolean {
  if (allowAll) return true;
  const folders = (allowedDir.length > 0 ? allowedDir : [process.cwd()]).map(realPath);
  return folders.some((folder) => path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep));
}
