import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";

/** What the proxy does to the bytes. */
export interface Weather {
  delayMs?: number;
  bytesPerSecond?: number;
}

/** A proxy to a local port that can be made faulty at any time. */
export class TcpProxy {
  weather: Weather = {};
  /** Sees the bytes on their way to the server. */
  tap: ((data: Buffer) => void) | undefined;
  /** Whether new connections are closed immediately. */
  isShut = false;
  readonly #server: Server;
  readonly #pairs = new Set<[Socket, Socket]>();
  readonly #frozen = new Set<Socket>();
  #onConnection: (() => void)[] = [];

  private constructor(server: Server, target: number) {
    this.#server = server;
    server.on("connection", (near) => this.#join(near, target));
  }

  static async to(target: number): Promise<TcpProxy> {
    const server = createServer({ allowHalfOpen: true });
    const proxy = new TcpProxy(server, target);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** The same address, through the proxy. */
  through(url: string): string {
    const address = new URL(url);
    address.port = String(this.port);
    return address.href.replace(/\/$/, "");
  }

  /** Closes all connections in an orderly way. */
  drop(): void {
    for (const [near, far] of this.#take()) {
      near.end();
      far.end();
      near.destroySoon();
      far.destroySoon();
    }
  }

  /** Resets all connections. */
  reset(): void {
    for (const [near, far] of this.#take()) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** Existing connections forward nothing, and neither side is notified. New ones work. */
  freeze(): void {
    for (const [near, far] of this.#take()) {
      for (const side of [near, far]) {
        side.removeAllListeners("data");
        side.removeAllListeners("end");
        side.removeAllListeners("close");
        side.resume();
        this.#frozen.add(side);
      }
    }
  }

  /** The next connection. */
  connection(): Promise<void> {
    return new Promise((resolve) => this.#onConnection.push(resolve));
  }

  async close(): Promise<void> {
    this.reset();
    for (const side of this.#frozen) side.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #take(): [Socket, Socket][] {
    const pairs = [...this.#pairs];
    this.#pairs.clear();
    return pairs;
  }

  #join(near: Socket, target: number): void {
    near.on("error", () => {});
    if (this.isShut) {
      near.resetAndDestroy();
      return;
    }
    const far = dial({ port: target, host: "127.0.0.1", allowHalfOpen: true });
    near.setNoDelay();
    far.setNoDelay();
    far.on("error", () => near.destroy());
    const pair: [Socket, Socket] = [near, far];
    this.#pairs.add(pair);
    near.on("data", (data) => this.tap?.(data));
    this.#carry(near, far);
    this.#carry(far, near);
    for (const side of pair) {
      side.once("close", () => {
        if (!this.#pairs.delete(pair)) return;
        near.destroy();
        far.destroy();
      });
    }
    for (const tell of this.#onConnection.splice(0)) tell();
  }

  #carry(from: Socket, to: Socket): void {
    let turn: Promise<unknown> = Promise.resolve();
    from.on("data", (data) => {
      const { delayMs = 0, bytesPerSecond } = this.weather;
      if (!delayMs && !bytesPerSecond) {
        turn = turn.then(() => to.write(data));
        return;
      }
      from.pause();
      turn = turn
        .then(() => pause(delayMs + (bytesPerSecond ? (data.length / bytesPerSecond) * 1000 : 0)))
        .then(() => {
          to.write(data);
          from.resume();
        });
    });
    from.on("end", () => void turn.then(() => to.end()));
  }
}
