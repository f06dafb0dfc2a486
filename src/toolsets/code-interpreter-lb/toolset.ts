import * as z from "zod";
import type { Run } from "../../engine/run/run.ts";
import { CellwrightError } from "../../errors.ts";
import { withoutEscapes } from "../../render/text/terminal.ts";
import type { SandboxAnswer, SandboxFault, SandboxReply } from "../../sandbox/protocol.ts";
import { failureReply, sandboxReply } from "../../sandbox/reply.ts";
import { defineTool, type ExactBlock, type ExactReply, type ToolContext } from "../../tools/tool.ts";
import { NamedSessions } from "../named-sessions.ts";
import { Shortened, wholeCell } from "../shown.ts";
import { defineToolset } from "../toolset.ts";
import { checkArguments } from "./arguments.ts";
import { afterSetup, imageSetup, withoutSetupWords } from "./images.ts";

const inputSchema = {
  type: "object",
  properties: {
    session_id: {
      type: "string",
      description: "Session id: calls with the same id share variables.",
    },
    code: { type: "string", description: "Python code to run." },
    timeout: { type: "integer", description: "Time limit in seconds.", default: 30 },
    initialization_images: {
      type: "array",
      items: { type: "string" },
      description: "Images as base64, available to the code as image_0, image_1, …",
    },
  },
  required: ["session_id", "code"],
};

const named = new NamedSessions();

const executePython = defineTool({
  name: "execute_python",
  title: "",
  description:
    "Runs Python code. Variables persist between calls with the same session_id; figures are returned as images.",
  readOnly: false,
  // Parsed in `checkArguments`, for the original's error texts.
  input: z.looseObject({}),
  exact: { inputSchema },
  async run(given, context): Promise<ExactReply> {
    const checked = checkArguments(given);
    if ("problem" in checked) {
      return { type: "exact", blocks: [{ type: "text", text: checked.problem }], isError: true };
    }
    const { session_id, code, timeout, initialization_images: images } = checked;
    if (code.trim() === "") return blocksOf(failureReply("No code provided"), context);
    const { setup, problem } = imageSetup(images);
    if (problem) return blocksOf(failureReply(problem), context);
    try {
      const session = await named.getOrCreate(context, session_id);
      const run = session.execute(code, {
        timeoutMs: timeout * 1000,
        signal: context.signal,
        around:
          setup === undefined
            ? undefined
            : (kernel, cell) => afterSetup(kernel, { setup, timeoutMs: timeout * 1000 }, cell),
      });
      const execution = await wholeCell(run, context);
      session.takeLate();
      const reply = withoutSetupWords(replyOf(run, timeout) ?? sandboxReply(execution));
      return blocksOf(reply, context, { sessionId: session.id, notice: noticeOf(run, session_id) });
    } catch (error) {
      if (!(error instanceof CellwrightError)) throw error;
      return blocksOf(brokenReply(error.code === "server_unreachable" ? UNREACHABLE : error.message), context);
    }
  },
});

export const toolset = defineToolset({
  name: "code-interpreter-lb",
  options: {},
  create: () => ({
    server: { name: "code-interpreter", version: "1.0.0" },
    tools: [executePython],
    resources: {
      list: async ({ sessions }) => (sessions.provider.backends ? [{ ...STATUS, name: "balancer status" }] : []),
      read: async (uri, { sessions }) => {
        const { backends } = sessions.provider;
        if (uri !== STATUS.uri || !backends) return undefined;
        return { mimeType: STATUS.mimeType, text: JSON.stringify(backends.status(), null, 2) };
      },
    },
    unknownTool: (name) => `Unknown tool: ${name}`,
    // The sandboxes hold the state; the original drops its map entry after an hour.
    guest: () => ({ forgetsIdleSessions: true }),
  }),
  commandLine: {
    command: "stdio",
    defaults: {
      kernel: "pool",
      plainNames: true,
      timeout: 30_000,
      maxSessions: 100_000,
      sessionTtl: 3_600_000,
      keepDays: 1,
      warm: 0,
    },
  },
});

const STATUS = { uri: "balancer://status", mimeType: "application/json" };
const UNREACHABLE = "All connection attempts failed";

async function blocksOf(
  { status, execution_time, error, output }: SandboxReply,
  context: ToolContext,
  { sessionId, notice }: { sessionId?: string; notice?: string | undefined } = {},
): Promise<ExactReply> {
  const shortened = new Shortened(context, sessionId ?? "");
  const whole = (text: string) =>
    sessionId === undefined ? withoutEscapes(text) : shortened.text(withoutEscapes(text));
  const time = execution_time === undefined ? "" : `**Time**: ${execution_time.toFixed(3)}s\n`;
  const words = [
    `**Execution Status**: ${status}\n${time}`,
    notice,
    output.stdout && `**stdout:**\n\`\`\`\n${await whole(output.stdout)}\n\`\`\``,
    output.stderr && `**stderr:**\n\`\`\`\n${await whole(output.stderr)}\n\`\`\``,
  ];
  const blocks: ExactBlock[] = words.flatMap((text) => (text ? [{ type: "text", text }] : []));
  const bundles = output.images.map((image) => ({ "image/png": image }));
  if (bundles.length > 0) blocks.push({ type: "shown", bundles, unchecked: true });
  if (status !== "success" && error !== undefined) {
    blocks.push({ type: "text", text: `**Error**: ${await whole(error)}` });
  }
  for (const link of shortened.links) blocks.push({ type: "link", link });
  return { type: "exact", blocks, isError: false, ...(sessionId === undefined ? {} : { sessionId }) };
}

/** Undefined if the session does not run on a pool. */
function answerOf({ raw }: Run): SandboxAnswer | undefined {
  return raw as SandboxAnswer | undefined;
}

/** The sandbox's reply, or a substitute if it failed. Undefined without a sandbox. */
function replyOf(run: Run, timeoutS: number): SandboxReply | undefined {
  const answer = answerOf(run);
  if (!answer) return undefined;
  return "reply" in answer ? answer.reply : brokenReply(faultText(answer.failure, timeoutS));
}

function brokenReply(text: string): SandboxReply {
  return { status: "error", error: text, output: { stdout: "", stderr: text, images: [] } };
}

/** In the words of the original's HTTP client. */
function faultText(fault: SandboxFault, timeoutS: number): string {
  switch (fault.kind) {
    case "timeout":
      return `Connection timeout after ${timeoutS}s`;
    case "disconnected":
      return "Server disconnected without sending a response.";
    case "malformed":
      return /^([^\s{["\-\dtfnNI]|$)/.test(fault.text)
        ? "Expecting value: line 1 column 1 (char 0)"
        : `The backend's answer is not a result: ${fault.text}`;
    case "http": {
      const { status, reason, url, said } = fault;
      const kind = status >= 500 ? "Server error" : status >= 400 ? "Client error" : "Redirect response";
      const more = `https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/${status}`;
      return said ?? `${kind} '${status} ${reason}' for url '${url}'\nFor more information check: ${more}`;
    }
  }
}

function noticeOf(run: Run, sessionId: string): string | undefined {
  const movedFrom = run.fate.lost?.place;
  if (movedFrom === undefined) return undefined;
  const answer = answerOf(run);
  const isElsewhere = answer && answer.place !== movedFrom;
  const what = isElsewhere ? `moved from port ${movedFrom} to port ${answer.place}` : "was restarted";
  return `**Notice**: session '${sessionId}' ${what}; earlier variables are lost.`;
}
