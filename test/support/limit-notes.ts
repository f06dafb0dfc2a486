/** Notes without those about limits that this machine cannot set: an ordinary user has no memory cgroup. */
export function besidesLimits(notes: unknown): unknown[] {
  const all: unknown[] = Array.isArray(notes) ? notes : [];
  return all.filter((note) => !/no (memory|pids|cpu) cgroup can be used/.test(String(note)));
}
