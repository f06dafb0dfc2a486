import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { pidNamespace } from "../../process/process-life.ts";

/** `kernel.json` in the session's run folder: all that a later server needs to adopt the kernel. */
const processId = z.object({ pid: z.number().int().positive(), start: z.string().optional() });

const recordSchema = z.object({
  version: z.literal(1),
  /** The boot and pid namespace in which the pids are valid. */
  place: z.string().optional(),
  /** Gets SIGINT; its exit is the kernel's exit. */
  process: processId,
  /** Gets SIGKILL instead of `process`: the first process of a jail that was started for the kernel. */
  jail: processId.optional(),
  /** The socket of the zygote it was forked from. Absent after a cold start. */
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
  /** The environment's name, as in the session's `env`. */
  environment: z.string(),
  info: z.object({
    provider: z.string(),
    language: z.enum(["python", "bash"]),
    description: z.string(),
    workingDir: z.string().optional(),
    layers: z.array(z.string()),
    notes: z.array(z.string()).optional(),
  }),
});

export type KernelRecord = Omit<z.infer<typeof recordSchema>, "version" | "place">;

export async function writeKernelRecord(runDir: string, record: KernelRecord): Promise<void> {
  const path = recordPath(runDir);
  const text = JSON.stringify({ version: 1, place: await pidNamespace(), ...record });
  await writeFile(`${path}.tmp`, text, { mode: 0o600 });
  await rename(`${path}.tmp`, path);
}

/** Undefined if missing, invalid, or from another boot or pid namespace. */
export async function readKernelRecord(runDir: string): Promise<KernelRecord | undefined> {
  const read = await readFile(recordPath(runDir), "utf8")
    .then(JSON.parse)
    .catch(() => undefined);
  const { success, data } = recordSchema.safeParse(read);
  return success && data.place === (await pidNamespace()) ? data : undefined;
}

/** Makes the kernel impossible to adopt. */
export async function removeKernelRecord(runDir: string): Promise<void> {
  await rm(recordPath(runDir), { force: true });
}

function recordPath(runDir: string): string {
  return join(runDir, "kernel.json");
}
