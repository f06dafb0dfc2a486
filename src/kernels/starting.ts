import { CellwrightError } from "../errors.ts";

export interface StartWait {
  /** For messages. */
  who: string;
  startTimeoutMs: number;
  signal: AbortSignal;
}

/** Waits until a kernel is ready. Throws when the start times out or is canceled. */
export async function readyInTime<T>(ready: Promise<T>, { who, startTimeoutMs, signal }: StartWait): Promise<T> {
  const stopped = deferred<never>();
  const timer = setTimeout(() => {
    const message = `${who} was not ready after ${startTimeoutMs / 1000} s.`;
    stopped.reject(new CellwrightError("kernel_start_timeout", message));
  }, startTimeoutMs);
  const abort = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([ready, stopped.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Waits for a promise unless the caller aborts first; a later value goes to `discard`. */
export async function unlessAborted<T>(
  promised: Promise<T>,
  signal: AbortSignal | undefined,
  discard: (late: T) => unknown = () => {},
): Promise<T> {
  if (!signal) return promised;
  const gaveUp = deferred<never>();
  const giveUp = () => gaveUp.reject(signal.reason);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([promised, gaveUp.promise]);
  } catch (error) {
    if (signal.aborted) void promised.then(discard, () => {});
    throw error;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** `Promise.withResolvers`, which Node 20 does not have. */
export function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  // It may be rejected after the wait has ended.
  promise.catch(() => {});
  return { promise, resolve, reject };
}
