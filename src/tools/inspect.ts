import * as z from "zod";
import type { Session } from "../engine/session/session.ts";
import { CellwrightError } from "../errors.ts";
import type { Variable } from "../kernels/kernel.ts";
import { showBytes } from "../render/text/amounts.ts";
import { sessionArgument } from "./session-argument.ts";
import { table } from "./table.ts";
import { defineTool } from "./tool.ts";

const MAX_LISTED = 200;

const listVariables = defineTool({
  name: "list_variables",
  title: "List variables",
  description:
    "Lists a session's variables with type, shape or length, size and the beginning of the value. Runs no code.",
  readOnly: true,
  input: z.object({ session_id: sessionArgument }),
  async run({ session_id }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const variables = await session.inspect({ limit: MAX_LISTED });
    if (variables.length === 0) {
      const why = hasPython(session) ? "has no variables." : "has no running Python kernel, so no variables.";
      return { type: "text", text: `Session ${session.id} ${why}`, data: { variables: [] } };
    }
    const rows = variables.map((variable) => [
      variable.name,
      variable.type,
      extent(variable),
      size(variable),
      variable.summary,
    ]);
    return {
      type: "text",
      text: table(["name", "type", "shape", "size", "value"], rows),
      data: { variables: variables.map(asData) },
    };
  },
});

const inspectVariable = defineTool({
  name: "inspect_variable",
  title: "Inspect variable",
  description:
    "Shows one variable in detail: type, shape, columns or members, and the beginning of its value. Runs no code.",
  readOnly: true,
  input: z.object({ session_id: sessionArgument, name: z.string().min(1).describe("The variable's name.") }),
  async run({ session_id, name }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    const maxChars = Math.floor(context.options.maxResultChars / 2);
    const [variable] = await session.inspect({ name, maxChars });
    if (!variable) {
      const why = hasPython(session) ? "" : " It has no running Python kernel.";
      throw new CellwrightError("variable_not_found", `Session \`${session.id}\` has no variable \`${name}\`.${why}`);
    }
    const facts = [variable.type, variable.dtype, extent(variable), size(variable)].filter(Boolean).join(" · ");
    const members = variable.members?.length ? `\n${variable.members.join(", ")}` : "";
    return { type: "text", text: `${variable.name}: ${facts}${members}\n${variable.summary}`, data: asData(variable) };
  },
});

export default [listVariables, inspectVariable];

function extent({ shape, length }: Variable): string {
  return shape ? shape.join(" × ") : length === undefined ? "" : String(length);
}

function size({ sizeBytes }: Variable): string {
  return sizeBytes === undefined ? "" : showBytes(sizeBytes);
}

function asData({ sizeBytes, ...variable }: Variable) {
  return { ...variable, ...(sizeBytes === undefined ? {} : { size_bytes: sizeBytes }) };
}

/** Variables of a bash kernel are not listed. */
function hasPython({ kernels }: Session): boolean {
  return kernels.some(({ language }) => language === "python");
}
