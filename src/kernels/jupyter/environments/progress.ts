/** How far something is that takes a while. */
export interface Progress {
  /** From 0 to 1; never less than before. */
  fraction: number;
  /** What is being done, in a few words. */
  message: string;
}

export type ReportProgress = (progress: Progress) => void;

/** The part of a whole that one step is: its own 0 to 1 becomes `from` to `to`. */
export function part(report: ReportProgress | undefined, from: number, to: number): ReportProgress {
  let reached = 0;
  return ({ fraction, message }) => {
    reached = Math.max(reached, Math.min(fraction, 1));
    report?.({ fraction: from + (to - from) * reached, message });
  };
}
