import type { Language } from "../../execution.ts";
import type { SessionRecord } from "../../store/store.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { Session, type SessionParts } from "../session/session.ts";
import type { SessionFolders } from "./folders.ts";

/** Settings that all sessions share. */
export interface SessionSettings
  extends Pick<SessionParts, "provider" | "store" | "log" | "defaultTimeoutMs" | "restore" | "guest"> {
  openWorkspace: (dir: string) => Workspace;
}

export interface SessionContext extends Pick<SessionParts, "admit" | "now" | "filesChanged" | "queued"> {
  folders: SessionFolders;
}

/** Builds a session from its record. `loss`: the notice about lost variables for its next cell. */
export async function buildSession(
  record: SessionRecord,
  settings: SessionSettings,
  { folders, ...context }: SessionContext,
  loss?: string,
): Promise<Session> {
  const { openWorkspace, ...common } = settings;
  const { provider, store } = common;
  const folder = await folders.of(record.id);
  const losses: Partial<Record<Language, string>> = {};
  if (loss) {
    const cells = await store.cells(record.id);
    for (const { language } of cells) losses[language] = loss;
    // After a crash the saved count may be too low.
    record.cells = Math.max(record.cells, cells.length);
  }
  const workspace = provider.workspace?.(record.id) ?? openWorkspace(folder.workspaceDir);
  return new Session({ ...common, ...context, record, folder, workspace }, losses);
}
