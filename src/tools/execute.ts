import * as z from "zod";
import { CellwrightError } from "../errors.ts";
import type { Execution } from "../execution.ts";
import { defineTool, type Reply } from "../mcp/tool.ts";
import type { Run } from "../session/run.ts";
import type { Session } from "../session/session.ts";
import { codeVariables } from "./code-inputs.ts";
import { follow } from "./follow.ts";
import { patienceMs } from "./patience.ts";
import { findSession, sessionArgument } from "./session-argument.ts";

/** For programs, which read the last expression's value from structuredContent. */
const VALUE_STYLE = { indent: 0, quoteNonFinite: true };

/** A week: what a timer can hold, and then some. */
const MAX_SECONDS = 604_800;

const waitArgument = z
  .number()
  .min(0)
  .max(MAX_SECONDS)
  .optional()
  .describe("Seconds to wait for the end before replying `running`; default 45.");

const executeCode = defineTool({
  name: "execute_code",
  title: "Execute code",
  description:
    "Runs Python or bash in a session, like a notebook cell: variables, imports and files persist between calls, the last expression is shown, top-level await works. Returns output, plots as images, errors, changed files and the session id. A cell that takes long is returned as `running` and goes on; collect the rest with wait.",
  readOnly: false,
  destructive: true,
  input: z.object({
    code: z.string().describe("Source to run."),
    session_id: z
      .union([z.string(), z.number()])
      .optional()
      .describe("Session id or name from an earlier call; leave out for a new session."),
    session_name: z.string().trim().min(1).max(100).optional().describe("Name for a new session."),
    language: z
      .enum(["python", "bash"])
      .optional()
      .describe("Default python; bash is a persistent shell in the same folder."),
    env: z
      .string()
      .transform((env) => env || undefined)
      .optional()
      .describe("Environment for a new session."),
    timeout_s: z
      .number()
      .positive()
      .max(MAX_SECONDS)
      .optional()
      .describe("Seconds after which the cell is stopped; default 600."),
    wait_s: waitArgument,
    images: z
      .array(z.string())
      .max(20)
      .optional()
      .describe(
        "Base64 or data: URIs; the code finds them as image_0, image_1, … (Python: bytes, bash: base64) and as image if there is one.",
      ),
    variables: z.record(z.string(), z.unknown()).optional().describe("JSON values the code finds as variables."),
  }),
  packed: "variables",
  async run({ code, session_id, session_name, language, env, timeout_s, wait_s, images, variables }, context) {
    const values = codeVariables(variables, images, language);
    const wantsNew = session_id === undefined || ["", "0"].includes(String(session_id).trim());
    const session = wantsNew
      ? await context.sessions.create(context.owner, { name: session_name, env })
      : await findSession(String(session_id), context);
    const call = new AbortController();
    const cancel = () => call.abort();
    context.signal.addEventListener("abort", cancel, { once: true });
    if (context.signal.aborted) cancel();
    try {
      const timeoutMs = timeout_s === undefined ? undefined : timeout_s * 1000;
      const run = session.execute(code, {
        language,
        env,
        timeoutMs,
        variables: values,
        value: context.options.structured ? VALUE_STYLE : undefined,
        onInput: context.ask,
        signal: call.signal,
      });
      const over = await follow(run, context, { patienceMs: patienceMs(wait_s) });
      const reply = over ? wholeReply(session, run) : newsReply(session, run);
      if (session_name !== undefined && !wantsNew) ignoredName(reply, session);
      return reply;
    } catch (error) {
      // A session that never had a kernel is of no use, and its id is in no reply.
      if (wantsNew) await context.sessions.close(session, { deleteFiles: true }).catch(() => {});
      throw error;
    } finally {
      // What the client cancels after this is not this cell any more.
      context.signal.removeEventListener("abort", cancel);
    }
  },
});

const wait = defineTool({
  name: "wait",
  title: "Wait for a cell",
  description:
    "Waits for the running cell and returns what it printed since the last reply, or its end. With nothing running it returns the last result again.",
  readOnly: true,
  input: z.object({
    session_id: sessionArgument,
    execution_id: z.string().min(1).optional().describe("Cell to wait for; default: the one running, else the newest."),
    wait_s: waitArgument,
  }),
  async run({ session_id, execution_id, wait_s }, context) {
    const session = await findSession(session_id, context);
    const run = session.run(execution_id);
    if (!run) return pastReply(session, execution_id);
    await follow(run, context, { patienceMs: patienceMs(wait_s), until: context.signal });
    // Nobody reads the reply of a cancelled call: what is new stays new for the next one.
    return context.signal.aborted ? executionReply(session, run.snapshot()) : newsReply(session, run);
  },
});

const interrupt = defineTool({
  name: "interrupt",
  title: "Interrupt",
  description: "Stops the running cell, keeping variables if it stops in time, and returns what it printed.",
  readOnly: false,
  input: z.object({ session_id: sessionArgument }),
  async run({ session_id }, context) {
    const session = await findSession(session_id, context);
    const run = session.run();
    const execution = await session.interrupt();
    if (!execution) return { type: "text", text: `Nothing is running in session ${session.id}.` };
    return run?.id === execution.id ? newsReply(session, run) : executionReply(session, execution);
  },
});

export default [executeCode, wait, interrupt];

function executionReply(session: Session, execution: Execution, late = session.takeLate()): ExecutionReply {
  return { type: "execution", session, execution, late, queued: false };
}

/** All of a cell that has ended. Its own late output is in it already, as long as the session holds it. */
function wholeReply(session: Session, run: Run, late = session.takeLate()): ExecutionReply {
  const isHeld = session.holds(run);
  const others = late.filter(({ executionId }) => executionId !== run.id || !isHeld);
  run.look();
  return executionReply(session, run.snapshot(), others);
}

/** What nobody was told yet of a cell that runs or has just ended; all of it when there is no news. */
function newsReply(session: Session, run: Run): ExecutionReply {
  const late = session.takeLate();
  const news = run.look();
  const isLate = late.some(({ executionId }) => executionId === run.id);
  if (run.phase === "finished" && (isLate || news.outputs.length === 0)) return wholeReply(session, run, late);
  if (run.phase === "starting") {
    news.notices.push(`The cell has not begun yet: ${run.startMessage || "starting the kernel"}.`);
  }
  return { ...executionReply(session, news, late), queued: run.phase === "queued" };
}

async function pastReply(session: Session, executionId: string | undefined): Promise<Reply> {
  const execution = await session.past(executionId);
  if (execution) return executionReply(session, execution);
  if (!executionId) return { type: "text", text: `No cell has run in session ${session.id} yet.` };
  throw new CellwrightError("execution_not_found", `Session \`${session.id}\` has no cell \`${executionId}\`.`);
}

type ExecutionReply = Extract<Reply, { type: "execution" }>;

function ignoredName({ execution }: ExecutionReply, { record }: Session): void {
  const name = record.name ? `it is named ${record.name}` : "it has no name";
  execution.notices.push(`session_name was ignored: session_id names a session that exists, and ${name}.`);
}
