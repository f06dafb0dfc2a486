import { readdir, readFile, readlink, stat, statfs } from "node:fs/promises";

/** Where a jail has file systems in memory of its own. */
const MEMORY_FOLDERS = ["/tmp", "/dev/shm"];
const TMPFS_TYPE = 0x01021994;

/** What a socket holds at most; it cannot ask for more (seccomp.ts). What it holds now is not shown anywhere. */
const SOCKET_BYTES = 208 * 1024;

/**
 * What processes take of memory together, near enough, where no cgroup counts it: their own, without what they share with
 * others such as the zygote they were forked from; what is in memory without being mapped, in files of a jail's own /tmp
 * and /dev/shm and in memory that has a descriptor only (memfd); and what waits in sockets. Detached System V memory is
 * not to be seen from here.
 */
export async function memoryUse(pids: number[]): Promise<number> {
  const [own, { memfdBytes, sockets }, inFiles, inTcp] = await Promise.all([
    Promise.all(pids.map(processBytes)),
    openDescriptors(pids),
    memoryFileBytes(pids),
    tcpBytes(pids[0]),
  ]);
  const sum = (name: "private" | "shared") => own.reduce((total, bytes) => total + bytes[name], 0);
  // What is mapped is in both; which part of it is not told.
  return sum("private") + Math.max(sum("shared"), memfdBytes + inFiles) + sockets * SOCKET_BYTES + inTcp;
}

/** Nothing: it is gone. */
async function processBytes(pid: number): Promise<{ private: number; shared: number }> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "latin1").catch(() => "");
  const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(rollup)?.[1] ?? 0) * 1024;
  const shared = bytes("Pss_Shmem");
  return { private: bytes("Pss") - shared, shared };
}

/** Each once, however many processes hold it. */
async function openDescriptors(pids: number[]): Promise<{ memfdBytes: number; sockets: number }> {
  const memfds = new Map<string, number>();
  const sockets = new Set<string>();
  for (const pid of pids) {
    const folder = `/proc/${pid}/fd`;
    for (const descriptor of await readdir(folder).catch(() => [])) {
      const path = `${folder}/${descriptor}`;
      const target = await readlink(path).catch(() => "");
      if (target.startsWith("socket:")) sockets.add(target);
      if (!target.startsWith("/memfd:")) continue;
      const file = await stat(path).catch(() => undefined);
      if (file) memfds.set(`${file.dev}:${file.ino}`, file.blocks * 512);
    }
  }
  const memfdBytes = [...memfds.values()].reduce((sum, bytes) => sum + bytes, 0);
  return { memfdBytes, sockets: sockets.size };
}

/** TCP grows its buffers by itself: what is in those of the process's network, if that is not this machine's. */
async function tcpBytes(pid: number | undefined): Promise<number> {
  if (pid === undefined) return 0;
  const network = (of: number | "self") => readlink(`/proc/${of}/ns/net`).catch(() => undefined);
  if ((await network(pid)) === (await network("self"))) return 0;
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((name) => readFile(`/proc/${pid}/net/${name}`, "latin1").catch(() => "")),
  );
  const queues = tables.join("\n").matchAll(/ ([0-9A-F]{8}):([0-9A-F]{8}) [0-9A-F]{2}:/g);
  return [...queues].reduce((sum, [, sent = "", received = ""]) => {
    return sum + Number.parseInt(sent, 16) + Number.parseInt(received, 16);
  }, 0);
}

/** The file systems of those processes that do not see this machine's. */
async function memoryFileBytes(pids: number[]): Promise<number> {
  const found = new Map<number, number>();
  for (const path of MEMORY_FOLDERS) {
    const ours = await stat(path).catch(() => undefined);
    for (const pid of pids) {
      const inside = `/proc/${pid}/root${path}`;
      const theirs = await stat(inside).catch(() => undefined);
      if (!theirs || theirs.dev === ours?.dev || found.has(theirs.dev)) continue;
      const use = await statfs(inside).catch(() => undefined);
      if (use?.type === TMPFS_TYPE) found.set(theirs.dev, (use.blocks - use.bfree) * use.bsize);
    }
  }
  return [...found.values()].reduce((sum, bytes) => sum + bytes, 0);
}
