import type { Log } from "../../../log.ts";
import type { JupyterChannel } from "../channel.ts";
import type { KernelLife } from "../kernel.ts";
import type { JupyterServer } from "./server.ts";

/** A server may take longer to end a kernel in native code; it is not waited for. */
const END_MS = 4_000;

/**
 * A kernel's life as its server tells it. How it ended is heard on the kernel's channel (see recovery.ts), which is
 * closed before the kernel is ended: the server interrupts a cell first, and that is not how the cell ended.
 */
export function remoteLife(
  server: JupyterServer,
  { kernelId, channel, log }: { kernelId: string; channel?: JupyterChannel; log: Log },
): KernelLife {
  let tell: (exit: { reason: string }) => void = () => {};
  const exited = new Promise<{ reason: string }>((resolve) => {
    tell = resolve;
  });
  let ending: Promise<void> | undefined;
  const end = async (reason: string): Promise<void> => {
    await channel?.close();
    try {
      await server.deleteKernel(kernelId, AbortSignal.timeout(END_MS));
    } catch (error) {
      // The next sweep finds what is left (see instances.ts).
      log.debug(`a kernel could not be ended: ${error instanceof Error ? error.message : error}`);
    }
    tell({ reason });
  };
  return {
    interrupt: async () => {
      try {
        await server.interruptKernel(kernelId);
      } catch (error) {
        log.debug(`a kernel could not be interrupted: ${error instanceof Error ? error.message : error}`);
      }
    },
    kill: (reason) => {
      ending ??= end(reason);
      return ending;
    },
    exited,
  };
}
