import { constants } from "node:os";

/** Undefined for a number that is no signal, or one without a name (the real-time signals). */
export function signalName(number: number): string | undefined {
  return Object.entries(constants.signals).find(([, each]) => each === number)?.[0];
}
