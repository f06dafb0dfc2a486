interface Work<T> {
  result: Promise<T>;
  abort: AbortController;
  listeners: Set<(message: string) => void>;
  users: number;
}

export interface Caller {
  signal: AbortSignal;
  progress?: ((message: string) => void) | undefined;
}

/** Does a piece of work once for all concurrent callers. It is aborted when the last of them has left. */
export interface SharedWork<T> {
  run(key: string, work: (caller: Required<Caller>) => Promise<T>, caller: Caller): Promise<T>;
  /** Aborts everything, and waits until it has stopped. */
  stop(reason: Error): Promise<void>;
}

export function createSharedWork<T>(): SharedWork<T> {
  const running = new Map<string, Work<T>>();

  const begin = (key: string, work: (caller: Required<Caller>) => Promise<T>): Work<T> => {
    const abort = new AbortController();
    const listeners = new Set<(message: string) => void>();
    const progress = (message: string) => {
      for (const listener of listeners) listener(message);
    };
    const result = work({ signal: abort.signal, progress }).finally(() => {
      if (running.get(key) === begun) running.delete(key);
    });
    const begun = { result, abort, listeners, users: 0 };
    // Callers that have left do not handle the rejection.
    result.catch(() => {});
    running.set(key, begun);
    return begun;
  };

  return {
    async run(key, work, { signal, progress }) {
      signal.throwIfAborted();
      const current = running.get(key) ?? begin(key, work);
      current.users += 1;
      if (progress) current.listeners.add(progress);
      let leave = () => {};
      const left = new Promise<"left">((resolve) => {
        leave = () => resolve("left");
        signal.addEventListener("abort", leave, { once: true });
      });
      try {
        const outcome = await Promise.race([current.result.then((value) => ({ value })), left]);
        if (outcome !== "left") return outcome.value;
      } finally {
        signal.removeEventListener("abort", leave);
        if (progress) current.listeners.delete(progress);
        current.users -= 1;
        if (current.users === 0 && signal.aborted) {
          // The next caller starts again instead of joining work that is being aborted.
          if (running.get(key) === current) running.delete(key);
          current.abort.abort(signal.reason);
        }
      }
      if (current.users === 0) await current.result.catch(() => {});
      throw signal.reason;
    },
    async stop(reason) {
      const all = [...running.values()];
      for (const work of all) work.abort.abort(reason);
      await Promise.allSettled(all.map((work) => work.result));
    },
  };
}
