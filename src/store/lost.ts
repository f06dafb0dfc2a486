import type { Execution } from "../execution.ts";
import { LOST_NOTICE } from "./store.ts";

/** A cell whose end was never recorded. */
export function lost(execution: Execution): Execution {
  return { ...execution, status: "kernel_died", notices: [...execution.notices, LOST_NOTICE] };
}
