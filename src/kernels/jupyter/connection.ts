import { createHash, randomBytes, randomUUID } from "node:crypto";
import { lstat, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { removeFolder } from "../../remove-folder.ts";

/** Where a kernel's sockets are and the key that signs what goes through them. Plain JSON: adoption keeps it. */
export interface Connection {
  /** The folder of the sockets and the connection file, on this machine; a jail binds it, and nothing beside it. */
  socketsDir: string;
  /** The connection file as the kernel sees it. */
  insideFile: string;
  /** `ipc://<prefix>-<port>` as seen from here. Short enough for a socket's address, through a link if need be. */
  prefix: string;
  /** The link that makes the prefix short, to be removed with the sockets. */
  link?: string | undefined;
  key: string;
  /** Who we are to the kernel. With the same id a later process of ours gets the replies to this one's requests. */
  clientId: string;
}

export interface ConnectionOptions {
  /** Where a jailed kernel sees `socketsDir`. Absent: where it is. */
  insideDir?: string | undefined;
}

/** As ipykernel wants them: any numbers will do, they end the sockets' names. */
export const ports = { shell: 1, iopub: 2, stdin: 3, control: 4, heartbeat: 5 };

const CONNECTION_FILE = "connection.json";
/** The address of a Unix socket has 108 bytes on Linux, 104 on macOS, with a NUL; ours end in `/s-1`. */
const MAX_FOLDER_BYTES = 98;

/** Makes the folder of sockets below the session's run folder, and the connection file in it. */
export async function createConnection(runDir: string, options: ConnectionOptions = {}): Promise<Connection> {
  const socketsDir = join(runDir, "sockets");
  // What an earlier kernel left there is of no use to this one.
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

/** A short name for a folder, in one that only we can write to. The same folder has the same name. */
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
    `The sockets of a kernel have no place: ${folder} is too long for their names, and so is the temporary folder.`,
    { hint: "Set --data-dir to a folder with a shorter path." },
  );
}

async function isOurs(folder: string): Promise<boolean> {
  const stats = await lstat(folder).catch(() => undefined);
  return stats?.isDirectory() === true && stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0;
}
