import { readdir, readFile, readlink, stat, statfs } from "node:fs/promises";

/** Mount points of a jail's own tmpfs. */
const MEMORY_FOLDERS = ["/tmp", "/dev/shm"];
const TMPFS_TYPE = 0x01021994;

/** Upper bound for a socket's buffers, which seccomp.ts enforces. The kernel does not report the actual use. */
const SOCKET_BYTES = 208 * 1024;

/**
 * Approximate memory use of processes together, where no cgroup counts it: private memory, without pages shared with
 * others such as their zygote; files in the jail's own /tmp and /dev/shm; memfds; socket buffers. Detached System V
 * shared memory is not visible from here.
 */
export async function memoryUse(pids: number[]): Promise<number> {
  const [own, { memfdBytes, sockets }, inFiles, inTcp] = await Promise.all([
    Promise.all(pids.map(processBytes)),
    openDescriptors(pids),
    memoryFileBytes(pids),
    tcpBytes(pids[0]),
  ]);
  const sum = (name: "private" | "shared") => own.reduce((total, bytes) => total + bytes[name], 0);
  // Mapped pages of these files are in both; the kernel does not say how many.
  return sum("private") + Math.max(sum("shared"), memfdBytes + inFiles) + sockets * SOCKET_BYTES + inTcp;
}

/** 0 if it has ended. */
async function processBytes(pid: number): Promise<{ private: number; shared: number }> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "latin1").catch(() => "");
  const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(rollup)?.[1] ?? 0) * 1024;
  const shared = bytes("Pss_Shmem");
  return { private: bytes("Pss") - shared, shared };
}

/** Counts each once, however many processes hold it. */
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

/** TCP grows its buffers automatically: what is queued in the process's network namespace, unless it is the host's. */
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

/** Use of the tmpfs mounts of processes that do not see the host's. */
async function memoryFileBytes(pids: number[]): Promise<number> {
  const found = new Map<number, number>();
  for (const path of MEMORY_FOLDERS) {
    const ofHost = await stat(path).catch(() => undefined);
    for (const pid of pids) {
      const inside = `/proc/${pid}/root${path}`;
      const ofProcess = await stat(inside).catch(() => undefined);
      if (!ofProcess || ofProcess.dev === ofHost?.dev || found.has(ofProcess.dev)) continue;
      const use = await statfs(inside).catch(() => undefined);
      if (use?.type === TMPFS_TYPE) found.set(ofProcess.dev, (use.blocks - use.bfree) * use.bsize);
    }
  }
  return [...found.values()].reduce((sum, bytes) => sum + bytes, 0);
}
