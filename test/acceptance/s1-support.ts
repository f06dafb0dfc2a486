/** Shared by the cases of both versions of jupyter-interpreter-mcp: a Jupyter server, and programs that use it. */

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { startJupyterServer, type TestJupyterServer } from "../support/jupyter-server.ts";
import { type AtEnd, programEnv, programPath } from "../support/program.ts";
import { type RawReply, startToolset, type ToolsetClient, type ToolsetStart } from "./toolset-program.ts";

export interface CellAnswer {
  error: string[];
  result: string[];
  session_id: number | string;
}

export interface S1Program extends ToolsetClient {
  /** Runs a cell and returns the object of the reply; the text must contain the same. */
  run(code: string, session?: number | string): Promise<CellAnswer & { reply: RawReply }>;
  /** The same for any tool. */
  ask(tool: string, args?: Record<string, unknown>): Promise<Record<string, unknown>>;
}

/** A Jupyter server with local files, and programs that use it, one after another or concurrently. */
export class S1Server {
  readonly jupyter: TestJupyterServer;
  readonly toolset: string;

  private constructor(jupyter: TestJupyterServer, toolset: string) {
    this.jupyter = jupyter;
    this.toolset = toolset;
  }

  static async start(python: string, toolset: string, atEnd: AtEnd, prefix = "/"): Promise<S1Server> {
    const jupyter = await startJupyterServer(python, { prefix });
    atEnd(() => jupyter.stop());
    return new S1Server(jupyter, toolset);
  }

  /** The folder of sessions and their histories. */
  get folder(): string {
    return join(this.jupyter.home, this.toolset.endsWith("@0.4") ? "sessions" : "notebooks");
  }

  get args(): string[] {
    const { url, token, home } = this.jupyter;
    const server = ["--jupyter-base-url", url, "--jupyter-token", token];
    if (!this.toolset.endsWith("@0.4")) return [...server, "--notebooks-folder", this.folder];
    return [...server, "--sessions-dir", this.folder, "--jupyter-root", home];
  }

  async program({ args = [], ...start }: ToolsetStart = {}): Promise<S1Program> {
    const client = await startToolset(this.toolset, { ...start, args: [...this.args, ...args] });
    const ask = async (tool: string, given: Record<string, unknown> = {}) => objectOf(await client.call(tool, given));
    return {
      ...client,
      ask,
      async run(code, session) {
        const reply = await client.call("execute_code", {
          code,
          ...(session === undefined ? {} : { session_id: session }),
        });
        return { ...(objectOf(reply) as unknown as CellAnswer), reply };
      },
    };
  }

  /** Ids of the running kernels. */
  async kernels(): Promise<string[]> {
    const { url, token } = this.jupyter;
    const answer = await fetch(`${url}/api/kernels`, { headers: { Authorization: `token ${token}` } });
    return ((await answer.json()) as { id: string }[]).map(({ id }) => id);
  }

  file(...names: string[]): string {
    return join(this.folder, ...names);
  }

  text(...names: string[]): string {
    return readFileSync(this.file(...names), "utf8");
  }

  has(...names: string[]): boolean {
    return existsSync(this.file(...names));
  }
}

/** The object of a reply, which is in the text and in structuredContent. */
export function objectOf({ structuredContent, content, isError }: RawReply): Record<string, unknown> {
  const [first] = content;
  if (isError || structuredContent === undefined) throw new Error(`No object: ${JSON.stringify(content)}`);
  if (first?.text !== JSON.stringify(structuredContent, null, 2)) throw new Error(`Not the same: ${first?.text}`);
  return structuredContent;
}

export interface Leaving {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the program until it exits, without a client. */
export function leaveAtOnce(
  args: string[],
  { env = {}, cwd }: { env?: Record<string, string>; cwd?: string } = {},
): Leaving {
  const { status, stdout, stderr } = spawnSync(process.execPath, [programPath, ...args], {
    env: programEnv(env),
    encoding: "utf8",
    timeout: 120_000,
    input: "",
    ...(cwd === undefined ? {} : { cwd }),
  });
  return { status, stdout, stderr };
}

export function filesIn(folder: string): string[] {
  return readdirSync(folder).sort();
}
