import * as z from "zod";
import type { Run } from "../engine/run/run.ts";
import type { Session } from "../engine/session/session.ts";
import { CellwrightError } from "../errors.ts";
import type { Execution } from "../execution.ts";
import { codeVariables } from "./code-inputs.ts";
import { follow, patienceMs } from "./follow.ts";
import { idOrName, sessionArgument } from "./session-argument.ts";
import { defineTool, type Reply } from "./tool.ts";

/** For structuredContent, from which programs read the value. */
const VALUE_STYLE = { indent: 0, quoteNonFinite: true };

/** A week: within the limit of a Node timer. */
const MAX_SECONDS = 604_800;

const waitArgument = z
  .number()
  .min(0)
  .max(MAX_SECONDS)
  .optional()
  .describe("Seconds to wait for the cell before replying `running`; default 45.");

const executeCode = defineTool({
  name: "execute_code",
  title: "Execute code",
  description:
    "Runs Python or bash in a session, like a notebook cell: variables, imports and files persist between calls, the last expression is shown, top-level await works. Returns output, plots as images, errors, changed files and the session id. A long cell is returned as `running` and continues; get the rest with wait.",
  readOnly: false,
  destructive: true,
  input: z.object({
    code: z.string().describe("Source to run."),
    session_id: idOrName.optional().describe("Session id or name from an earlier call; leave out for a new session."),
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
      .min(0.001)
      .max(MAX_SECONDS)
      .optional()
      .describe("Seconds after which the cell is stopped; default 600."),
    wait_s: waitArgument,
    images: z
      .array(z.string())
      .max(20)
      .optional()
      .describe(
        "Base64 or data: URIs, available as image_0, image_1, … (Python: bytes, bash: base64); a single one also as image.",
      ),
    variables: z.record(z.string(), z.unknown()).optional().describe("JSON values to define as variables."),
  }),
  packed: "variables",
  async run({ code, session_id, session_name, language, env, timeout_s, wait_s, images, variables }, context) {
    const values = variables || images ? codeVariables(variables, images, language) : {};
    const wantsNew = session_id === undefined || ["", "0"].includes(session_id.trim());
    const session = wantsNew
      ? await context.sessions.create(context.owner, { name: session_name, env })
      : await context.sessions.get(context.owner, session_id);
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
        kernelOptions: { value: context.options.structured ? VALUE_STYLE : undefined },
        onInput: context.ask,
        signal: call.signal,
      });
      const over = await follow(run, context, { patienceMs: patienceMs(wait_s) });
      const reply = over ? wholeReply(session, run) : newsReply(session, run);
      if (session_name !== undefined && !wantsNew) ignoredName(reply, session);
      return reply;
    } catch (error) {
      // A session that never had a kernel is useless, and no reply names it.
      if (wantsNew) await context.sessions.close(session, { deleteFiles: true }).catch(() => {});
      throw error;
    } finally {
      // A later cancellation must not stop this cell.
      context.signal.removeEventListener("abort", cancel);
    }
  },
});

const wait = defineTool({
  name: "wait",
  title: "Wait for a cell",
  description:
    "Waits for the running cell and returns its new output since the last reply. If nothing is running, returns the last result again.",
  readOnly: true,
  input: z.object({
    session_id: sessionArgument,
    execution_id: z.string().min(1).optional().describe("Cell to wait for; default: the one running, else the newest."),
    wait_s: waitArgument,
  }),
  async run({ session_id, execution_id, wait_s }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const run = session.run(execution_id);
    if (!run) return pastReply(session, execution_id);
    await follow(run, context, { patienceMs: patienceMs(wait_s), until: context.signal });
    // The reply of a cancelled call is dropped: new output stays unseen for the next call.
    return context.signal.aborted ? executionReply(session, run.snapshot()) : newsReply(session, run);
  },
});

const interrupt = defineTool({
  name: "interrupt",
  title: "Interrupt",
  description: "Stops the running cell and returns its output. Variables are kept if it stops in time.",
  readOnly: false,
  input: z.object({ session_id: sessionArgument }),
  async run({ session_id }, context) {
    const session = await context.sessions.get(context.owner, session_id);
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

/** The whole result of an ended cell. It includes the cell's late output, while the session is in memory. */
function wholeReply(session: Session, run: Run, late = session.takeLate()): ExecutionReply {
  const isHeld = session.holds(run);
  const others = late.filter(({ executionId }) => executionId !== run.id || !isHeld);
  run.look();
  return executionReply(session, run.snapshot(), others);
}

/** The unseen output of a cell that runs or has just ended; the whole result if nothing is new. */
function newsReply(session: Session, run: Run): ExecutionReply {
  const late = session.takeLate();
  const news = run.look();
  const isLate = late.some(({ executionId }) => executionId === run.id);
  if (run.phase === "finished" && (isLate || news.outputs.length === 0)) return wholeReply(session, run, late);
  if (run.phase === "starting") {
    news.notices.push(`The cell has not started yet: ${run.startMessage || "starting the kernel"}.`);
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
  const name = record.name ? `is named ${record.name}` : "has no name";
  execution.notices.push(`session_name was ignored: session_id refers to an existing session, which ${name}.`);
}
