import { type Readable, Writable } from "node:stream";
import { serveStdio as serve } from "@modelcontextprotocol/server/stdio";
import type { Log } from "../log.ts";
import type { ServerFactory } from "./server.ts";
import { StdioTransport } from "./stdio-transport.ts";

export interface StdioParts {
  createServer: ServerFactory;
  maxRequestBytes: number;
  log: Log;
  /** The process's own by default; stdout then belongs to the protocol alone. */
  streams?: { input: Readable; output: Writable };
}

export interface StdioConnection {
  /** Resolves when the client is gone: end of input, or a pipe that nobody reads. */
  closed: Promise<void>;
  /** Ends it from our side. Can be called twice. */
  close(): Promise<void>;
}

/** Serves one client on two streams, in whichever era of the protocol it speaks. */
export function serveStdio({ createServer, maxRequestBytes, log, streams }: StdioParts): StdioConnection {
  const { input, output } = streams ?? { input: process.stdin, output: takeStdout() };
  const transport = new StdioTransport({ input, output }, { maxBytes: maxRequestBytes });
  const connection = serve(createServer, {
    transport,
    onerror: (error) => log.debug(`stdio: ${error.message}`),
  });
  return { closed: transport.closed, close: () => connection.close() };
}

/** From here on what anything else prints goes to stderr: one stray line on stdout would break the protocol. */
function takeStdout(): Writable {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  const output = new Writable({
    decodeStrings: false,
    write: (text, _encoding, done) => void write(text, done),
  });
  process.stdout.on("error", (error) => output.destroy(error));
  return output;
}
