import type { Language } from "../execution.ts";
import type { KernelProvider } from "../kernels/kernel.ts";
import type { SessionRecord } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { Chronicle, isFileName } from "./chronicle.ts";
import type { SessionFolders } from "./folders.ts";
import { Session, type SessionParts } from "./session.ts";

/** What all sessions have in common. */
export interface SessionSettings
  extends Pick<
    SessionParts,
    "provider" | "store" | "log" | "defaultTimeoutMs" | "restore" | "commands" | "classic" | "saveDisplays"
  > {
  openWorkspace: (dir: string) => Workspace;
  /** Where a list of each session's cells that succeeded is kept, too: among its files, or beside them by its name. */
  cellsFile?: "none" | "inside" | "beside";
}

export interface Surroundings extends Pick<SessionParts, "admit" | "now" | "filesChanged" | "queued"> {
  folders: SessionFolders;
  /** Whose files may lie beside the sessions' folders. */
  localOwner: string;
}

/** Makes a session of its record. `loss`: what its next cell is told of the variables it misses. */
export async function buildSession(
  record: SessionRecord,
  settings: SessionSettings,
  { folders, localOwner, ...around }: Surroundings,
  loss?: string,
): Promise<Session> {
  const { openWorkspace, cellsFile = "none", ...common } = settings;
  const { provider, store } = common;
  const folder = await folders.of(record.id);
  const losses: Partial<Record<Language, string>> = {};
  if (loss) {
    const cells = await store.cells(record.id);
    for (const { language } of cells) losses[language] = loss;
    // A program that crashed had not saved its latest count.
    record.cells = Math.max(record.cells, cells.length);
  }
  const workspace = provider.workspace?.(record.id) ?? openWorkspace(folder.workspaceDir);
  const isLocal = record.owner === localOwner;
  const chronicle = chronicleOf(record, { cellsFile, provider, workspace, isLocal });
  return new Session({ ...common, ...around, record, folder, workspace, chronicle }, losses);
}

/** Beside the sessions' folders there is one file for each name, so that only the local user's sessions have them. */
function chronicleOf(
  { id, name = id }: SessionRecord,
  { cellsFile, provider, workspace, isLocal }: ChroniclePlace,
): Chronicle | undefined {
  if (cellsFile === "inside") return new Chronicle(workspace, "history.txt");
  if (cellsFile === "none" || !provider.surroundings || !isLocal || !isFileName(name)) return undefined;
  return new Chronicle(provider.surroundings(id), `${name}.txt`);
}

interface ChroniclePlace {
  cellsFile: NonNullable<SessionSettings["cellsFile"]>;
  provider: KernelProvider;
  workspace: Workspace;
  isLocal: boolean;
}
