import { CellwrightError } from "../errors.ts";

export interface Patience {
  /** For messages. */
  who: string;
  startTimeoutMs: number;
  signal: AbortSignal;
}

/** Waits until a kernel is ready; not for longer than that may take, nor than anybody wants it. */
export async function readyInTime<T>(ready: Promise<T>, { who, startTimeoutMs, signal }: Patience): Promise<T> {
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

/** `Promise.withResolvers`, which Node 20 does not have. */
export function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  // It may be rejected after the wait for it is over.
  promise.catch(() => {});
  return { promise, resolve, reject };
}
