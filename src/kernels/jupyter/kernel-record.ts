import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { placeOfProcesses } from "../../process-life.ts";

/** What a later run of this program needs to take over a kernel: `kernel.json` in the session's run folder. */
const processId = z.object({ pid: z.number().int().positive(), start: z.string().optional() });

const recordSchema = z.object({
  version: z.literal(1),
  /** Where process numbers mean the same: this start of this machine, this container. */
  place: z.string().optional(),
  /** Who gets SIGINT, and whose end is the kernel's. */
  process: processId,
  /** Who gets SIGKILL when it is another: the first process of a jail that was started for the kernel. */
  jail: processId.optional(),
  /** The socket of the zygote it was forked from. Absent: it was started from nothing. */
  zygoteSocket: z.string().optional(),
  connection: z.object({
    socketsDir: z.string(),
    insideFile: z.string(),
    prefix: z.string(),
    link: z.string().optional(),
    key: z.string(),
    clientId: z.string(),
  }),
  journalFile: z.string(),
  heartbeatFile: z.string(),
  /** What the session's `env` calls it. */
  environment: z.string(),
  info: z.object({
    provider: z.string(),
    language: z.enum(["python", "bash"]),
    description: z.string(),
    workingDir: z.string().optional(),
    walls: z.array(z.string()),
    notes: z.array(z.string()).optional(),
  }),
});

export type KernelRecord = Omit<z.infer<typeof recordSchema>, "version" | "place">;

export async function writeKernelRecord(runDir: string, record: KernelRecord): Promise<void> {
  const path = recordPath(runDir);
  const text = JSON.stringify({ version: 1, place: await placeOfProcesses(), ...record });
  await writeFile(`${path}.tmp`, text, { mode: 0o600 });
  await rename(`${path}.tmp`, path);
}

/** Undefined: there is none, or not of a process that could still be here. */
export async function readKernelRecord(runDir: string): Promise<KernelRecord | undefined> {
  const text = await readFile(recordPath(runDir), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const { success, data } = recordSchema.safeParse(parseJson(text));
  return success && data.place === (await placeOfProcesses()) ? data : undefined;
}

/** A kernel that has been ended is nobody's to take over. */
export async function removeKernelRecord(runDir: string): Promise<void> {
  await rm(recordPath(runDir), { force: true });
}

function recordPath(runDir: string): string {
  return join(runDir, "kernel.json");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
