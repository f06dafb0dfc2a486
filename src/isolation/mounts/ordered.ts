import type { Jail } from "../jail.ts";

/** One step of building a jail's root. `hidden`: an empty folder over the real one. */
export type OrderedMount =
  | { kind: "hidden"; at: string }
  | { kind: "readOnly" | "readWrite"; from: string; at: string };

/** Outer ones first, so that they do not cover inner ones. */
export function orderedMounts({ readOnly, readWrite, hidden = [] }: Pick<Jail, "readOnly" | "readWrite" | "hidden">) {
  const mounts: OrderedMount[] = [
    ...hidden.map((at) => ({ kind: "hidden" as const, at })),
    ...readOnly.map((mount) => ({ kind: "readOnly" as const, ...mount })),
    ...readWrite.map((mount) => ({ kind: "readWrite" as const, ...mount })),
  ];
  return mounts.sort((a, b) => depth(a.at) - depth(b.at));
}

function depth(path: string): number {
  return path.split("/").filter(Boolean).length;
}
