import type { Execution } from "../execution.ts";

/** A cell whose end nobody wrote down. */
export function lost(execution: Execution): Execution {
  const notice = "The program ended while this cell ran; its outcome is unknown.";
  return { ...execution, status: "kernel_died", notices: [...execution.notices, notice] };
}
