import { randomBytes } from "node:crypto";

/** Our temporary entries in a workspace, hidden from listings: a file being written, a folder being removed. */
export function temporaryName(): string {
  return `.cellwright-${randomBytes(8).toString("hex")}.tmp`;
}

export function isTemporary(name: string): boolean {
  return /^\.cellwright-[0-9a-f]{16}\.tmp$/.test(name);
}
