import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { CellwrightError, hasCode } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
import type { Log } from "../../log.ts";
import type { SandboxAnswer, SandboxReply } from "../../sandbox/protocol.ts";
import type { Balancer } from "../balancer.ts";
import type { ExecuteOptions, InstallOptions, Kernel, KernelInfo } from "../kernel.ts";
import { deferred } from "../starting.ts";
import { assignmentOf } from "./assignment.ts";
import { type Sandbox, SandboxFailure } from "./client.ts";
import { eventsOf } from "./events.ts";
import type { Leftovers } from "./leftovers.ts";

/** A sandbox enforces the cell's time limit; this much later it is considered dead. */
const SLACK_MS = 10_000;
/** Margin to notice that before the session stops the cell, which would clear its variables in the sandbox. */
const NOTICE_MS = 1_000;
/** If no limit is given. */
const DEFAULT_TIMEOUT_MS = 30_000;
/** An idle connection older than this may be closed by the sandbox just when it is used. */
const FRESH_MS = 3_000;

const MAY_HAVE_RUN =
  "The cell may have run, in whole or in part, so it was not retried: check its effects before you repeat it.";

export interface PoolKernelParts {
  sessionId: string;
  /** The session's name in sandboxes. Default: a generated name for each kernel, so that it finds no old variables. */
  name?: string | undefined;
  /** Sandboxes that may still have state of sessions of that name, because they could not be cleared. */
  leftovers: Leftovers;
  sandboxes: ReadonlyMap<string, Sandbox>;
  balancer: Balancer;
  log: Log;
  /** Called once, when the kernel has ended, with the sandbox that it was on. */
  ended: (kernel: PoolKernel, place: string | undefined) => void;
}

/**
 * A session on one sandbox. Until its first cell is sent it may go to any; after that its variables are there. The
 * connection is made before anything is sent, so that a dead sandbox is noticed before a cell could have started; a
 * cell that was sent is never sent again.
 */
export class PoolKernel implements Kernel {
  readonly ownTimeLimit = { slackMs: SLACK_MS + NOTICE_MS };
  readonly #closing = deferred<{ reason: string }>();
  readonly closed = this.#closing.promise;
  readonly #parts: PoolKernelParts;
  readonly #name: string;
  readonly #disposing = new AbortController();
  #sandbox: Sandbox | undefined;
  #open: { socket: Socket; sinceMs: number } | undefined;
  #wasUsed = false;
  #hasAnswered = false;
  /** The sandbox has shut down, and its variables are gone. */
  #hasLeft = false;
  #cells = 0;
  #isClosed = false;
  #disposed: Promise<void> | undefined;

  constructor(parts: PoolKernelParts) {
    this.#parts = parts;
    this.#name = parts.name ?? `${parts.sessionId}-${randomBytes(6).toString("hex")}`;
  }

  get info(): KernelInfo {
    const info = describePool(this.#sandbox?.name);
    return this.#hasAnswered ? { ...info, place: this.#sandbox?.name } : info;
  }

  /** Finds a sandbox for a new session. Throws `server_unreachable`. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#connect(signal);
  }

  /**
   * Connects for the next cell. If the sandbox is gone or out, this kernel ends; the next one starts on another
   * sandbox.
   */
  async prepare(_code: string, { signal }: InstallOptions): Promise<undefined> {
    try {
      await this.#connect(signal);
    } catch (error) {
      if (!(error instanceof CellwrightError) || !this.#isClosed) throw error;
      // Listeners of `closed` run before this returns.
      await this.closed;
    }
  }

  async *execute(code: string, options: ExecuteOptions = {}): AsyncIterable<ExecutionEvent> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const executionCount = options.silent ? null : ++this.#cells;
    const variables = options.variables ?? {};
    let reply: SandboxReply | undefined;
    try {
      if (Object.keys(variables).length > 0) reply = await this.#send(assignmentOf(variables), timeoutMs, NOT_RUN);
      // Sandboxes reject empty code.
      const isWanted = reply === undefined || reply.status === "success";
      if (isWanted && code.trim() !== "") reply = await this.#send(code, timeoutMs, MAY_HAVE_RUN);
    } catch (error) {
      if (!(error instanceof SandboxFailure)) throw error;
      yield { type: "error", name: "SandboxError", message: error.message, traceback: [] };
      const raw: SandboxAnswer = { place: this.#place, failure: error.fault };
      yield { type: "done", status: "error", executionCount, raw };
      return;
    }
    if (reply) yield* eventsOf(reply);
    const status = reply?.status === "error" ? "error" : "ok";
    const raw: SandboxAnswer | undefined = reply && { place: this.#place, reply };
    yield { type: "done", status, executionCount, raw };
  }

  dispose(): Promise<void> {
    this.#disposed ??= this.#dispose();
    return this.#disposed;
  }

  async #dispose(): Promise<void> {
    const isGone = this.#isClosed;
    this.#disposing.abort(new CellwrightError("kernel_died", "The session was ended."));
    this.#end("it was ended.");
    if (!this.#wasUsed || isGone) return;
    // This also stops a running cell there, whose request has just been dropped.
    if (this.#sandbox) await this.#clear(this.#sandbox);
  }

  async #clear(sandbox: Sandbox): Promise<void> {
    try {
      await sandbox.clear(this.#name);
      this.#parts.leftovers.cleared(this.#name, sandbox.name);
    } catch (error) {
      this.#parts.log.debug(`${this.#name}: cannot be cleared: ${error}`);
    }
  }

  get #place(): string {
    return this.#sandbox?.name ?? "";
  }

  /**
   * Sends code and waits for the outcome. `ifUnknown` is what a failure means for the cell. If the sandbox shuts down
   * without having run it, another one is tried, unless that would lose variables.
   */
  async #send(code: string, timeoutMs: number, ifUnknown: string): Promise<SandboxReply> {
    const left = new Set<string>();
    for (;;) {
      const hadVariables = this.#wasUsed;
      try {
        return await this.#sendOnce(code, timeoutMs, ifUnknown);
      } catch (error) {
        if (!(error instanceof SandboxFailure && error.isLeaving)) throw error;
        this.#hasLeft = hadVariables;
        if (hadVariables) throw error;
        this.#wasUsed = false;
        left.add(this.#place);
        await this.#connect(this.#disposing.signal, left).catch(() => {
          throw error;
        });
      }
    }
  }

  async #sendOnce(code: string, timeoutMs: number, ifUnknown: string): Promise<SandboxReply> {
    const { balancer, sessionId, leftovers } = this.#parts;
    const { sandbox, socket } = await this.#connect(this.#disposing.signal);
    this.#open = undefined;
    if (!this.#wasUsed && leftovers.has(this.#name, sandbox.name)) await this.#clear(sandbox);
    this.#wasUsed = true;
    if (this.#parts.name !== undefined) leftovers.add(this.#name, sandbox.name);
    const limitMs = timeoutMs + SLACK_MS;
    const startedMs = performance.now();
    const use = balancer.begin(sessionId, sandbox.name);
    try {
      const request = { session_id: this.#name, code, timeout: timeoutMs / 1000 };
      const reply = await sandbox.run(socket, request, { limitMs, signal: this.#disposing.signal });
      use.succeeded();
      this.#hasAnswered = true;
      return reply;
    } catch (error) {
      if (error instanceof SandboxFailure) {
        if (!error.isRefusal) use.failed();
        const { isRefusal, isLeaving } = error;
        const fate = isRefusal || isLeaving ? NOT_RUN : ifUnknown;
        throw new SandboxFailure(`${error.message} ${fate}`, error.fault, { isRefusal, isLeaving });
      }
      // A caller that stops a cell long after its time limit does so because the sandbox did not answer.
      if (performance.now() - startedMs >= limitMs) use.failed();
      throw error;
    } finally {
      use.ended();
    }
  }

  /** A sandbox and a connection to it for one request. Throws `server_unreachable` if none is available. */
  async #connect(signal: AbortSignal, except?: Set<string>): Promise<{ sandbox: Sandbox; socket: Socket }> {
    if (this.#isClosed) throw new CellwrightError("kernel_died", "The session's sandbox is gone.");
    const open = this.#takeOpen();
    if (open && this.#sandbox) return { sandbox: this.#sandbox, socket: open };
    const { sandbox, socket } = this.#wasUsed
      ? await this.#connectAgain(signal)
      : await this.#connectAnywhere(signal, except);
    this.#sandbox = sandbox;
    this.#open = { socket, sinceMs: performance.now() };
    return { sandbox, socket };
  }

  async #connectAnywhere(
    signal: AbortSignal,
    except = new Set<string>(),
  ): Promise<{ sandbox: Sandbox; socket: Socket }> {
    const { balancer, sessionId } = this.#parts;
    const failures = new Map<string, string>();
    for (;;) {
      const name = balancer.choose(sessionId, new Set([...except, ...failures.keys()]));
      const sandbox = name === undefined ? undefined : this.#parts.sandboxes.get(name);
      if (!sandbox) {
        balancer.forget(sessionId);
        throw noneLeft([...failures.values()]);
      }
      try {
        return { sandbox, socket: await this.#tryConnect(sandbox, signal) };
      } catch (error) {
        if (!(error instanceof CellwrightError)) throw error;
        failures.set(sandbox.name, error.message);
      }
    }
  }

  /** Reconnects to the sandbox that has the variables. */
  async #connectAgain(signal: AbortSignal): Promise<{ sandbox: Sandbox; socket: Socket }> {
    const { balancer, sessionId } = this.#parts;
    const sandbox = this.#sandbox;
    if (!sandbox) throw new CellwrightError("kernel_died", "The session's sandbox is gone.");
    const isOut = balancer.isOut(sandbox.name) && balancer.choose(sessionId) !== sandbox.name;
    if (this.#hasLeft || isOut) {
      const why = this.#hasLeft ? "was shut down" : "failed several times and gets no requests for now";
      const reason = `Sandbox ${sandbox.name}, where the session was, ${why}.`;
      this.#end(reason);
      throw new CellwrightError("server_unreachable", reason);
    }
    try {
      return { sandbox, socket: await this.#tryConnect(sandbox, signal) };
    } catch (error) {
      if (error instanceof CellwrightError) this.#end(error.message);
      throw error;
    }
  }

  async #tryConnect(sandbox: Sandbox, signal: AbortSignal): Promise<Socket> {
    try {
      return await sandbox.connect(signal);
    } catch (error) {
      if (hasCode(error, "server_unreachable")) {
        const use = this.#parts.balancer.begin(this.#parts.sessionId, sandbox.name);
        use.failed();
        use.ended();
        this.#parts.log.warn(error.message);
      }
      throw error;
    }
  }

  /** The open connection, if it is fresh enough to be reliable. */
  #takeOpen(): Socket | undefined {
    const open = this.#open;
    if (!open) return undefined;
    const { socket, sinceMs } = open;
    if (socket.readyState === "open" && performance.now() - sinceMs < FRESH_MS) return socket;
    socket.destroy();
    this.#open = undefined;
    return undefined;
  }

  #end(reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#open?.socket.destroy();
    this.#closing.resolve({ reason });
    this.#parts.ended(this, this.#sandbox?.name);
  }
}

const NOT_RUN = "The cell was not run.";

export function describePool(name?: string): KernelInfo {
  return {
    provider: "pool",
    language: "python",
    description: name === undefined ? "Python in a pool of sandboxes" : `Python in sandbox ${name}`,
    layers: [],
    notes: ["What code can access is up to the sandbox."],
  };
}

function noneLeft(failures: string[]): CellwrightError {
  if (failures.length === 0) {
    return new CellwrightError("server_unreachable", "No sandbox takes new sessions: all are being drained.", {
      hint: "Stop draining one of them, then retry.",
    });
  }
  return new CellwrightError("server_unreachable", `No sandbox can be reached. ${failures.join(" ")}`);
}
