/** What happened to the kernel of the previous cell, and so to the session's variables. Empty: it still runs. */
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
