import { createHash } from "node:crypto";
import * as z from "zod";
import { CellwrightError, errorCodes } from "../errors.ts";
import { NOT_RUN_HEADER } from "../execution.ts";
import type { Log } from "../log.ts";
import type { Session } from "../session/session.ts";
import type { Sessions } from "../session/sessions.ts";
import { answerJson } from "./answer.ts";
import type { Route } from "./app.ts";
import { createBodyReader, HttpError } from "./body.ts";
import { checkJsonPost } from "./json-post.ts";
import { failureReply, sandboxReply } from "./sandbox-reply.ts";

/** Whoever names no session shares this one. */
const DEFAULT_SESSION = "JupyterSandboxDefault";
const DEFAULT_TIMEOUT_S = 5;
/** A week: what a timer can hold, and then some. */
const MAX_TIMEOUT_S = 604_800;
/** Sentences kept for a session whose clients go away again and again. */
const MAX_UNTOLD = 10;
/** Longer names are known by their digest. */
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

/** `/jupyter_sandbox` and `/clear_session`: cells in sessions by name, for load balancers that know such sandboxes. */
export function createSandboxRoutes({ sessions, maxRequestBytes, log }: SandboxRoutesParts): Record<string, Route> {
  const readBody = createBodyReader(maxRequestBytes);
  const named = new NamedSessions(sessions);
  /** What replies said that nobody was there to read: of lost variables somebody must be told. */
  const untold = new WeakMap<Session, string[]>();

  const route = <T>(schema: z.ZodType<T>, work: (body: T, call: Call) => Promise<object>): Route => ({
    async handle(request, response, { owner }) {
      checkJsonPost(request);
      const gone = new AbortController();
      response.once("close", () => gone.abort());
      try {
        const body = parse(schema, await readBody(request, response, { owner }));
        answerJson(response, 200, await work(body, { owner, signal: gone.signal }));
      } catch (error) {
        // What is still being sent is refused in a way that its sender can see.
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
        // Nobody else shows it, and it would pile up.
        session.takeLate();
        const notices = [...(untold.get(session) ?? []), ...execution.notices];
        if (signal.aborted) untold.set(session, notices.slice(-MAX_UNTOLD));
        else untold.delete(session);
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
  /** Aborted when the client has gone: then nobody waits for the cell. */
  signal: AbortSignal;
}

interface Who {
  owner: string;
  id: string;
}

/** Sessions by the names that callers choose, made when they are first used. */
class NamedSessions {
  readonly #sessions: Sessions;
  /** Two first requests for one name must get one session; and a name is looked for once, not for each cell. */
  readonly #known = new Map<string, Promise<Session>>();
  /** Those that nobody had before we made them. */
  readonly #made = new WeakSet<Session>();

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** A session that was closed meanwhile is followed by a new one. */
  async use<T>(who: Who, work: (session: Session) => Promise<T>): Promise<T> {
    const known = this.#session(who);
    try {
      const session = await known;
      // Puts off its expiry.
      return await work(await this.#sessions.get(who.owner, session.id));
    } catch (error) {
      if (!isGone(error)) throw error;
      this.#forget(who, known);
      return work(await this.#session(who));
    }
  }

  /** Its files go too, unless it is a session that somebody made in another way and may look for them. */
  async end(who: Who): Promise<void> {
    const known = this.#known.get(keyOf(who));
    const session = await (known ?? this.#find(who)).catch(ifMissing);
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
    const found = await this.#find(who).catch(ifMissing);
    if (found) return found;
    const made = await this.#sessions.create(who.owner, { name: nameOf(who.id) });
    this.#made.add(made);
    return made;
  }

  #find({ owner, id }: Who): Promise<Session> {
    return this.#sessions.get(owner, nameOf(id));
  }

  #forget(who: Who, session: Promise<Session>): void {
    if (this.#known.get(keyOf(who)) === session) this.#known.delete(keyOf(who));
  }
}

function isGone(error: unknown): boolean {
  return error instanceof CellwrightError && ["session_closed", "session_not_found"].includes(error.code);
}

function ifMissing(error: unknown): undefined {
  if (error instanceof CellwrightError && error.code === "session_not_found") return undefined;
  throw error;
}

const keyOf = ({ owner, id }: Who) => JSON.stringify([owner, id]);

/** Any text is a name. Those that cannot be a session's name as they are, are known by their digest. */
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
  log.error("a sandbox request could not be handled", error);
  return { status: 500, text: errorCodes.internal.hint };
}
