import { createHash } from "node:crypto";
import * as z from "zod";
import type { Session } from "../engine/session/session.ts";
import type { Sessions } from "../engine/sessions/sessions.ts";
import { CellwrightError, errorCodes, hasCode } from "../errors.ts";
import type { Log } from "../log.ts";
import { NOT_RUN_HEADER } from "../sandbox/protocol.ts";
import { failureReply, sandboxReply } from "../sandbox/reply.ts";
import { answerJson } from "./answer.ts";
import type { Route } from "./app.ts";
import { createBodyReader, HttpError } from "./body.ts";
import { checkJsonPost } from "./json-post.ts";

/** The session of requests that name none. */
const DEFAULT_SESSION = "JupyterSandboxDefault";
const DEFAULT_TIMEOUT_S = 5;
/** One week, which fits into a timer. */
const MAX_TIMEOUT_S = 604_800;
/** Undelivered notices kept per session. */
const MAX_UNDELIVERED = 10;
/** Longer names are replaced by their digest. */
const MAX_NAME_CHARS = 100;

const name = z.union([z.string(), z.number()], { error: "a text" }).transform(String).default(DEFAULT_SESSION);
const runBody = z.object({
  session_id: name,
  code: z.string({ error: "a text" }).nullish(),
  timeout: z
    .number({ error: "a number of seconds" })
    .positive({ error: "more than 0" })
    .max(MAX_TIMEOUT_S, { error: `at most ${MAX_TIMEOUT_S}` })
    .default(DEFAULT_TIMEOUT_S),
});
const clearBody = z.object({ session_id: name });

export interface SandboxRoutesParts {
  sessions: Sessions;
  maxRequestBytes: number;
  log: Log;
}

/** `/jupyter_sandbox` and `/clear_session`: cells in named sessions, for load balancers that use such sandboxes. */
export function createSandboxRoutes({ sessions, maxRequestBytes, log }: SandboxRoutesParts): Record<string, Route> {
  const readBody = createBodyReader(maxRequestBytes);
  const named = new NamedSessions(sessions);
  /** Notices of replies whose client had disconnected: the loss of variables must be reported in a later reply. */
  const undelivered = new WeakMap<Session, string[]>();

  const route = <T>(schema: z.ZodType<T>, work: (body: T, call: Call) => Promise<object>): Route => ({
    async handle(request, response, { owner }) {
      checkJsonPost(request);
      const gone = new AbortController();
      response.once("close", () => gone.abort());
      try {
        const body = parse(schema, await readBody(request, response, { owner }));
        answerJson(response, 200, await work(body, { owner, signal: gone.signal }));
      } catch (error) {
        // If the body is still being sent, the refusal must reach the sender.
        if (error instanceof HttpError && !request.complete) throw error;
        const failure = statusAndText(error, log);
        answerJson(response, failure.status, failureReply(failure.text), failure.headers);
      }
    },
  });

  return {
    "/jupyter_sandbox": route(runBody, async ({ session_id, code, timeout }, { owner, signal }) => {
      if (!code?.trim()) return failureReply("No code provided");
      return named.use({ owner, id: session_id }, async (session) => {
        const run = session.execute(code, { timeoutMs: timeout * 1000, signal });
        const execution = await run.finished;
        if (run.neverRan && run.stopReason === "shutdown") {
          throw new CellwrightError("shutting_down", "The sandbox was shut down before the cell was run.");
        }
        // This API does not show late output; drop it, so that it does not accumulate.
        session.takeLate();
        const notices = [...(undelivered.get(session) ?? []), ...execution.notices];
        if (signal.aborted) undelivered.set(session, notices.slice(-MAX_UNDELIVERED));
        else undelivered.delete(session);
        return sandboxReply({ ...execution, notices });
      });
    }),
    "/clear_session": route(clearBody, async ({ session_id }, { owner }) => {
      await named.end({ owner, id: session_id });
      return { status: "success" };
    }),
  };
}

interface Call {
  owner: string;
  /** Aborted when the client has disconnected. */
  signal: AbortSignal;
}

interface Who {
  owner: string;
  id: string;
}

/** Sessions by the names that callers choose, created on first use. */
class NamedSessions {
  readonly #sessions: Sessions;
  /** Concurrent first requests for a name share one session; and a name is looked up once, not for each cell. */
  readonly #known = new Map<string, Promise<Session>>();
  /** Sessions created by this API. */
  readonly #made = new WeakSet<Session>();

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** Replaces a session that was closed meanwhile by a new one. */
  async use<T>(who: Who, work: (session: Session) => Promise<T>): Promise<T> {
    const known = this.#session(who);
    try {
      const session = await known;
      // `get` postpones the session's expiry.
      return await work(await this.#sessions.get(who.owner, session.id));
    } catch (error) {
      if (!hasCode(error, "session_closed", "session_not_found")) throw error;
      this.#forget(who, known);
      return work(await this.#session(who));
    }
  }

  /** Deletes its files, too, unless the session was created in another way and its user may want them. */
  async end(who: Who): Promise<void> {
    const known = this.#known.get(keyOf(who));
    const session = await (known ?? this.#find(who));
    if (known) this.#forget(who, known);
    if (session) await this.#sessions.close(session, { deleteFiles: this.#made.has(session) });
  }

  #session(who: Who): Promise<Session> {
    const known = this.#known.get(keyOf(who));
    if (known) return known;
    const session = this.#findOrCreate(who);
    this.#known.set(keyOf(who), session);
    session.catch(() => this.#forget(who, session));
    return session;
  }

  async #findOrCreate(who: Who): Promise<Session> {
    const found = await this.#find(who);
    if (found) return found;
    const made = await this.#sessions.create(who.owner, { name: nameOf(who.id) });
    this.#made.add(made);
    return made;
  }

  #find({ owner, id }: Who): Promise<Session | undefined> {
    return this.#sessions.find(owner, nameOf(id));
  }

  #forget(who: Who, session: Promise<Session>): void {
    if (this.#known.get(keyOf(who)) === session) this.#known.delete(keyOf(who));
  }
}

const keyOf = ({ owner, id }: Who) => JSON.stringify([owner, id]);

/** Any text is accepted. One that cannot be a session name is replaced by its digest. */
function nameOf(id: string): string {
  const isPlain = id.length <= MAX_NAME_CHARS && !["", "0"].includes(id.trim()) && !/\p{C}/u.test(id);
  return isPlain ? id : `sandbox ${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

function parse<T>(schema: z.ZodType<T>, bytes: Buffer): T {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new HttpError(400, "The request is not JSON in UTF-8.");
  }
  const body = schema.safeParse(json);
  if (body.success) return body.data;
  const [issue] = body.error.issues;
  const where = issue?.path.join(".");
  throw new HttpError(400, where ? `\`${where}\` must be ${issue?.message}.` : "The request must be a JSON object.");
}

function statusAndText(error: unknown, log: Log): { status: number; text: string; headers?: Record<string, string> } {
  if (error instanceof HttpError) return { status: error.status, text: error.message };
  if (error instanceof CellwrightError) {
    const answer = { status: errorCodes[error.code].http, text: `${error.message} ${error.hint}` };
    return error.code === "shutting_down" ? { ...answer, headers: { [NOT_RUN_HEADER]: error.code } } : answer;
  }
  log.error("a sandbox request failed", error);
  return { status: 500, text: errorCodes.internal.hint };
}
