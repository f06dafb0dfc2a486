import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Language } from "../../../execution.ts";

/** What a later run of this program needs to take over a kernel of a Jupyter server. Holds no token. */
const recordSchema = z.object({
  version: z.literal(1),
  /** The server's address. */
  url: z.string(),
  kernelId: z.string(),
  /** Whose connection it is, as the server sees it: with the same one it gives what the kernel said meanwhile. */
  wsSession: z.string(),
  /** The header `session` of our requests. */
  clientSession: z.string(),
  info: z.object({
    provider: z.string(),
    language: z.enum(["python", "bash"]),
    description: z.string(),
    walls: z.array(z.string()),
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

/** Undefined: there is none. */
export async function readRemoteRecord(runDir: string, language: Language): Promise<RemoteRecord | undefined> {
  const text = await readFile(recordPath(runDir, language), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return recordSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** A kernel that has been ended is nobody's to take over. */
export async function removeRemoteRecord(runDir: string, language: Language): Promise<void> {
  await rm(recordPath(runDir, language), { force: true });
}

function recordPath(runDir: string, language: Language): string {
  return join(runDir, language === "python" ? "remote-kernel.json" : `remote-kernel-${language}.json`);
}
