/** What became of the kernel that a cell could expect, and so of the session's variables. Empty: still there. */
export interface KernelFate {
  /** The previous kernel was lost; this cell runs in a fresh one. */
  lost?: LostKernel | undefined;
  /** Earlier cells were replayed in the fresh kernel. */
  replayed?: ReplayedCells | undefined;
}

export interface LostKernel {
  /** For the reply, if no reply has reported the loss yet. */
  notice?: string | undefined;
  /** The pool backend that it was on. */
  place?: string | undefined;
}

export interface ReplayedCells {
  cells: number;
  /** Cells with another outcome than before, by position. */
  failures: { cell: number; error: string }[];
}
