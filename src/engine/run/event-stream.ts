import { charsOf, type ExecutionEvent } from "../../execution.ts";

/** Buffer for a slow reader. Past it, events are dropped and marked, to bound memory. */
const MAX_WAITING_CHARS = 4_000_000;
const DROPPED: ExecutionEvent = {
  type: "stream",
  name: "stderr",
  text: "\n[output dropped: the reader was too slow]\n",
};

export type EventListener = (event: ExecutionEvent) => void;

export interface EventSource {
  phase: string;
  /** Calls back with each event from now on; the last one is `done`. Returns the unsubscribe function. */
  listen(listener: EventListener): () => void;
}

/** The events of a cell from now on, for one reader. */
export function eventStream(run: EventSource): ReadableStream<ExecutionEvent> {
  let stop = () => {};
  let isDropping = false;
  return new ReadableStream<ExecutionEvent>(
    {
      start(stream) {
        if (run.phase === "finished") return stream.close();
        stop = run.listen((event) => {
          const isFull = (stream.desiredSize ?? 0) <= 0;
          if (event.type === "done" || !isFull) stream.enqueue(event);
          else if (!isDropping) stream.enqueue(DROPPED);
          isDropping = isFull;
          if (event.type === "done") stream.close();
        });
      },
      cancel: () => stop(),
    },
    { highWaterMark: MAX_WAITING_CHARS, size: charsOf },
  );
}
