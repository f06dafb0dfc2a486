/** Notes without those on what this machine cannot limit: an ordinary user has no memory cgroup. */
export function besidesLimits(notes: unknown): unknown[] {
  const all: unknown[] = Array.isArray(notes) ? notes : [];
  return all.filter((note) => !/no (memory|pids|cpu) cgroup can be used/.test(String(note)));
}
