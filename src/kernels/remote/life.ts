import type { Log } from "../../log.ts";
import type { JupyterChannel } from "../protocol/channel.ts";
import type { KernelLife } from "../protocol/kernel.ts";
import { deferred } from "../starting.ts";
import type { JupyterServer } from "./server/server.ts";

/** A server may take longer to end a kernel that is in native code; that is not waited for. */
const END_MS = 4_000;

/**
 * The life of a kernel on its server. Its end is reported on its channel (see recovery.ts). The channel is closed
 * before the kernel is deleted: the server first interrupts the cell, and that must not look like the cell's outcome.
 */
export function remoteLife(
  server: JupyterServer,
  { kernelId, channel, log }: { kernelId: string; channel?: JupyterChannel; log: Log },
): KernelLife {
  const exiting = deferred<{ reason: string }>();
  let ending: Promise<void> | undefined;
  const end = async (reason: string): Promise<void> => {
    await channel?.close();
    try {
      await server.deleteKernel(kernelId, AbortSignal.timeout(END_MS));
    } catch (error) {
      // The next sweep deletes it (see instances.ts).
      log.debug(`a kernel could not be ended: ${error instanceof Error ? error.message : error}`);
    }
    exiting.resolve({ reason });
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
    exited: exiting.promise,
  };
}
