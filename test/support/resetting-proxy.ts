import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { onTestFinished } from "vitest";

/** Forwards a request, and breaks the connection when the answer arrives: by then it has been processed. */
export async function startResettingProxy(port: number): Promise<{ url: string; resets(): number }> {
  let resets = 0;
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    client.on("error", () => {});
    upstream.on("error", () => {});
    client.pipe(upstream);
    upstream.once("data", () => {
      resets++;
      client.resetAndDestroy();
      upstream.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, resets: () => resets };
}
