import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Language } from "../../execution.ts";

/** What a later process needs to adopt a kernel on a Jupyter server. Contains no token. */
const recordSchema = z.object({
  version: z.literal(1),
  /** The server's address. */
  url: z.string(),
  kernelId: z.string(),
  /** The connection's session id: with the same id, the server replays what the kernel sent meanwhile. */
  wsSession: z.string(),
  /** The header `session` of our requests. */
  clientSession: z.string(),
  info: z.object({
    provider: z.string(),
    language: z.enum(["python", "bash"]),
    description: z.string(),
    layers: z.array(z.string()),
    workingDir: z.string().optional(),
    notes: z.array(z.string()).optional(),
  }),
});

export type RemoteRecord = Omit<z.infer<typeof recordSchema>, "version">;

export async function writeRemoteRecord(runDir: string, record: RemoteRecord): Promise<void> {
  const path = recordPath(runDir, record.info.language);
  await writeFile(`${path}.tmp`, JSON.stringify({ version: 1, ...record }), { mode: 0o600 });
  await rename(`${path}.tmp`, path);
}

/** Undefined: no kernel is recorded. */
export async function readRemoteRecord(runDir: string, language: Language): Promise<RemoteRecord | undefined> {
  const text = await readFile(recordPath(runDir, language), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return recordSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** An ended kernel cannot be adopted. */
export async function removeRemoteRecord(runDir: string, language: Language): Promise<void> {
  await rm(recordPath(runDir, language), { force: true });
}

function recordPath(runDir: string, language: Language): string {
  return join(runDir, language === "python" ? "remote-kernel.json" : `remote-kernel-${language}.json`);
}
