import type { Session } from "../../engine/session/session.ts";
import { Semaphore } from "../../semaphore.ts";
import type { ToolContext } from "../../tools/tool.ts";

/** Single-use sessions, deleted with their files. At the session limit, callers wait. */
export class OneUse {
  #semaphore: Semaphore | undefined;

  /** The session is deleted in the background. */
  async run<T>(
    { sessions, options, owner }: Pick<ToolContext, "sessions" | "options" | "owner">,
    signal: AbortSignal,
    use: (session: Session) => Promise<T>,
  ): Promise<T> {
    this.#semaphore ??= new Semaphore(options.maxSessions);
    const release = await this.#semaphore.acquire(signal);
    let session: Session | undefined;
    try {
      session = await sessions.create(owner, { temporary: true });
      return await use(session);
    } finally {
      const closed = session ? sessions.close(session).catch(() => {}) : Promise.resolve();
      void closed.finally(release);
    }
  }
}
