import type { ExecutionEvent } from "../../src/execution.ts";
import type { ExecuteOptions, Kernel, KernelProvider, Variable } from "../../src/kernels/kernel.ts";

/** Kernels driven by the test: no cell ends and no output arrives by itself. */
export interface HandProvider extends KernelProvider {
  /** Events of the running cell, or of the next one. `done` ends it. */
  show(...events: ExecutionEvent[]): void;
  print(text: string): void;
  end(): void;
  variables: Variable[];
  /** The options of the newest cell. */
  given: ExecuteOptions["variables"];
}

export function createHandProvider(): HandProvider {
  const waiting: ExecutionEvent[] = [];
  let wake = () => {};
  let cells = 0;

  function createKernel(): Kernel {
    let close!: (reason: { reason: string }) => void;
    const closed = new Promise<{ reason: string }>((resolve) => {
      close = resolve;
    });
    return {
      info: { provider: "hand", language: "python", description: "Hand-driven kernel", layers: [] },
      closed,
      async *execute(_code, { variables } = {}) {
        provider.given = variables;
        cells += 1;
        for (;;) {
          for (let event = waiting.shift(); event; event = waiting.shift()) {
            yield event.type === "done" ? { ...event, executionCount: cells } : event;
            if (event.type === "done") return;
          }
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      },
      interrupt: async () => {
        provider.show({ type: "error", name: "KeyboardInterrupt", message: "", traceback: ["KeyboardInterrupt"] });
        provider.show({ type: "done", status: "error", executionCount: null });
      },
      inspect: async (query) =>
        provider.variables.filter(({ name }) => query.name === undefined || query.name === name),
      dispose: async () => close({ reason: "it was disposed." }),
    };
  }

  const provider: HandProvider = {
    name: "hand",
    variables: [],
    given: undefined,
    list: async () => [],
    start: async () => createKernel(),
    dispose: async () => {},
    show(...events) {
      waiting.push(...events);
      wake();
    },
    print: (text) => provider.show({ type: "stream", name: "stdout", text }),
    end: () => provider.show({ type: "done", status: "ok", executionCount: null }),
  };
  return provider;
}
