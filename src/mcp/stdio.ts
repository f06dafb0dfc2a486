import type { Readable, Writable } from "node:stream";
import { serveStdio as serve } from "@modelcontextprotocol/server/stdio";
import type { Log } from "../log.ts";
import type { ServerFactory } from "./server.ts";
import { StdioTransport, takeStdout } from "./stdio-transport.ts";

export interface StdioParts {
  createServer: ServerFactory;
  maxRequestBytes: number;
  log: Log;
  /** Default: stdin and stdout of the process; stdout is then reserved for the protocol. */
  streams?: { input: Readable; output: Writable };
}

export interface StdioConnection {
  /** Resolves when the client is gone: end of input, or a broken pipe. */
  closed: Promise<void>;
  /** Closes the connection. Can be called twice. */
  close(): Promise<void>;
}

/** Serves one client on two streams, with the legacy or the modern protocol. */
export function serveStdio({ createServer, maxRequestBytes, log, streams }: StdioParts): StdioConnection {
  const { input, output } = streams ?? { input: process.stdin, output: takeStdout() };
  const transport = new StdioTransport({ input, output }, { maxBytes: maxRequestBytes });
  const connection = serve(createServer, {
    transport,
    onerror: (error) => log.debug(`stdio: ${error.message}`),
  });
  return { closed: transport.closed, close: () => connection.close() };
}
