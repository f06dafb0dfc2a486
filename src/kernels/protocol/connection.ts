import { createHash, randomBytes, randomUUID } from "node:crypto";
import { lstat, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { removeFolder } from "../../process/remove-folder.ts";

/** A kernel's sockets, and the key that signs its messages. Plain JSON, stored for adoption. */
export interface Connection {
  /** The host folder of the sockets and the connection file; a jail mounts only this one. */
  socketsDir: string;
  /** The connection file as the kernel sees it. */
  insideFile: string;
  /** Host paths of the sockets are `<prefix>-<port>`. Short enough for a socket address, through a link if needed. */
  prefix: string;
  /** The symlink that shortens the prefix, to be removed with the sockets. */
  link?: string | undefined;
  key: string;
  /** The client's identity. A later server with the same id gets the replies to this one's requests. */
  clientId: string;
}

export interface ConnectionOptions {
  /** Where a jailed kernel sees `socketsDir`. Absent: at its host path. */
  insideDir?: string | undefined;
}

/** For ipykernel, with which they are only suffixes of the sockets' names. */
export const ports = { shell: 1, iopub: 2, stdin: 3, control: 4, heartbeat: 5 };

const CONNECTION_FILE = "connection.json";
/** A Unix socket address has 108 bytes on Linux, 104 on macOS, including a NUL. The names end in `/s-1`. */
const MAX_FOLDER_BYTES = 98;

/** Creates the sockets' folder in the session's run folder, with the connection file. */
export async function createConnection(runDir: string, options: ConnectionOptions = {}): Promise<Connection> {
  const socketsDir = join(runDir, "sockets");
  // Remove leftovers of an earlier kernel.
  await removeFolder(socketsDir);
  await mkdir(socketsDir, { recursive: true, mode: 0o700 });
  const link = Buffer.byteLength(socketsDir) > MAX_FOLDER_BYTES ? await linkTo(socketsDir) : undefined;
  const outsideDir = link ?? socketsDir;
  const insideDir = options.insideDir ?? outsideDir;
  const key = randomBytes(32).toString("hex");
  const content = {
    transport: "ipc",
    ip: `${insideDir}/s`,
    shell_port: ports.shell,
    iopub_port: ports.iopub,
    stdin_port: ports.stdin,
    control_port: ports.control,
    hb_port: ports.heartbeat,
    key,
    signature_scheme: "hmac-sha256",
    kernel_name: "",
  };
  await writeFile(join(socketsDir, CONNECTION_FILE), JSON.stringify(content), { mode: 0o600 });
  return {
    socketsDir,
    insideFile: `${insideDir}/${CONNECTION_FILE}`,
    prefix: `${outsideDir}/s`,
    link,
    key,
    clientId: randomUUID(),
  };
}

/** Removes sockets, connection file and link; the kernel must be gone. */
export async function removeConnection(connection: Connection): Promise<void> {
  if (connection.link) await rm(connection.link, { force: true });
  await removeFolder(connection.socketsDir);
}

/** A short symlink to a folder, in a private temporary folder. The same folder always gets the same name. */
async function linkTo(folder: string): Promise<string> {
  const name = createHash("sha256").update(folder).digest("hex").slice(0, 16);
  for (const temporary of new Set([tmpdir(), "/tmp"])) {
    const parent = join(temporary, `cellwright-${process.getuid?.() ?? "user"}`);
    const link = join(parent, name);
    if (Buffer.byteLength(link) > MAX_FOLDER_BYTES) continue;
    await mkdir(parent, { mode: 0o700 }).catch(() => {});
    if (!(await isOurs(parent))) continue;
    await rm(link, { force: true });
    await symlink(folder, link);
    return link;
  }
  throw new CellwrightError(
    "kernel_start_failed",
    `Cannot create kernel sockets: their path in ${folder} exceeds 98 bytes, and so does the one in the temporary folder.`,
    { hint: "Set --data-dir to a folder with a shorter path." },
  );
}

async function isOurs(folder: string): Promise<boolean> {
  const stats = await lstat(folder).catch(() => undefined);
  return stats?.isDirectory() === true && stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0;
}
