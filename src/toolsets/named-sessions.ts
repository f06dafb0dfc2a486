import type { Session } from "../engine/session/session.ts";
import type { NewSession, Sessions } from "../engine/sessions/sessions.ts";
import type { ToolContext } from "../tools/tool.ts";

type Context = Pick<ToolContext, "sessions" | "owner">;

/** Sessions by the caller's name, which can be any text, among those open in this process. */
export class NamedSessions {
  /** Sessions that are being started, by owner and name, so that concurrent callers get the same one. */
  readonly #starting = new WeakMap<Sessions, Map<string, Promise<Session>>>();

  async find({ sessions, owner }: Context, name: string): Promise<Session | undefined> {
    const known = sessions.opened(owner).find(({ record }) => record.name === name);
    return known && sessions.find(owner, known.id);
  }

  /** Starts the session if it does not exist. */
  async getOrCreate(context: Context, name: string, about: NewSession = {}): Promise<Session> {
    const known = await this.find(context, name);
    if (known) return known;
    const { sessions, owner } = context;
    const starting = this.#starting.get(sessions) ?? new Map<string, Promise<Session>>();
    this.#starting.set(sessions, starting);
    const key = JSON.stringify([owner, name]);
    const already = starting.get(key);
    if (already) return already;
    const started = sessions.create(owner, { ...about, name, anyName: true }).finally(() => starting.delete(key));
    starting.set(key, started);
    return started;
  }
}
