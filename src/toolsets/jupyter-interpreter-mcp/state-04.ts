import type * as z from "zod";
import { type OptionValues, option } from "../../options/spec.ts";
import { flag, list, text } from "../../options/types.ts";
import type { SessionRecord } from "../../store/store.ts";
import type { Reply, Tool, ToolContext } from "../../tools/tool.ts";
import { pydanticSchemas } from "../pydantic.ts";
import type { ResourceContext } from "../toolset.ts";

export const options = {
  sessionsDir: option({
    group: "Toolset",
    help: "Folder of the sessions on the Jupyter server.",
    type: text("DIR"),
    default: "/home/jovyan/sessions",
    aliases: { env: ["SESSIONS_DIR"] },
  }),
  jupyterRoot: option({
    group: "Toolset",
    help: "Root folder of the Jupyter server; file paths are relative to it.",
    type: text("DIR"),
    default: "/home/jovyan",
    aliases: { env: ["JUPYTER_ROOT"] },
  }),
  restoreSessionsOnStartup: option({
    group: "Toolset",
    help: "Start the kernels of earlier sessions immediately, not on first use.",
    type: flag(),
    default: false,
    aliases: { env: ["RESTORE_SESSIONS_ON_STARTUP"] },
  }),
  allowedDir: option({
    group: "Toolset",
    help: "Folder that upload_file_path may read (default: the working directory; over HTTP none). Repeatable.",
    type: list("DIR"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowAll: option({
    group: "Toolset",
    help: "Let upload_file_path read any file.",
    type: flag(),
    default: false,
    trusted: true,
  }),
};

export type Own = OptionValues<typeof options>;

/** Limit of expired ids to remember; older ones are answered as unknown. */
const REMEMBERED = 10_000;

/** The most recently expired sessions. */
export class ForgottenSessions {
  readonly #keys = new Set<string>();

  add({ owner, id }: SessionRecord): void {
    this.#keys.add(JSON.stringify([owner, id]));
    const [oldest] = this.#keys;
    if (oldest !== undefined && this.#keys.size > REMEMBERED) this.#keys.delete(oldest);
  }

  has(owner: string, id: string): boolean {
    return this.#keys.has(JSON.stringify([owner, id]));
  }
}

/** State shared by the tools of one server. */
export interface State {
  own: Own;
  forgotten: ForgottenSessions;
}

export type Context04 = ToolContext & State;
export type ResourceContext04 = ResourceContext & State;

export const STRINGS = { type: "string" };
export const LISTS_OR_STRINGS = { anyOf: [{ items: STRINGS, type: "array" }, STRINGS] };

interface Tool04<Input extends z.ZodObject> extends Pick<Tool<Input>, "name" | "description" | "readOnly" | "input"> {
  /** The schema of each value in the object that it returns; `true` is any. */
  values: object | true;
  run(input: z.infer<Input>, context: Context04): Promise<Reply>;
}

/** A tool with access to the shared state. */
export function defineTool04<Input extends z.ZodObject>({ values, ...tool }: Tool04<Input>): (state: State) => Tool {
  const exact = pydanticSchemas(tool.name, tool.input, values);
  return (state) => ({
    ...tool,
    title: "",
    exact,
    run: (input, context) => tool.run(input as z.infer<Input>, { ...context, ...state }),
  });
}
