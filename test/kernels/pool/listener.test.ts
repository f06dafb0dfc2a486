import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { findListener, isLoopbackAddress } from "../../../src/kernels/pool/listener.ts";

async function listen(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

describe.runIf(process.platform === "linux")("whose process listens", () => {
  const own = process.getuid?.() ?? 0;

  test.each(["127.0.0.1", "0.0.0.0"])("is seen for %s", async (host) => {
    const port = await listen(host);
    expect(findListener("127.0.0.1", port)).toBe("own");
    expect(findListener("127.0.0.1", port, { uid: own + 1 })).toBe(own === 0 ? "root" : "foreign");
  });

  test("is not known where nothing does", async () => {
    const port = await listen("127.0.0.2");
    expect(findListener("127.0.0.1", port)).toBe("foreign");
  });

  const at = (uid: number, ...locals: string[]) => ({
    uid: 1000,
    read: (list: string) => (list === "tcp" ? locals.map((local) => ({ local, uid })) : []),
  });
  // 18901 is 49D5.
  test.each([
    ["this user", at(1000, "0100007F:49D5"), "own"],
    ["root", at(0, "0100007F:49D5"), "root"],
    ["another user", at(1001, "0100007F:49D5"), "foreign"],
    ["another user on all addresses", at(1001, "00000000:49D5"), "foreign"],
    ["another user on another port", at(1001, "0100007F:49D6"), "foreign"],
  ] as const)("is told: %s", (_, options, verdict) => {
    expect(findListener("127.0.0.1", 18901, options)).toBe(verdict);
  });

  test("is decided by the socket of the very address, before one of all addresses", () => {
    const read = (list: string) =>
      list === "tcp" ? [{ local: "0100007F:49D5", uid: 1000 }] : [{ local: `${"0".repeat(32)}:49D5`, uid: 1001 }];
    expect(findListener("127.0.0.1", 18901, { read, uid: 1000 })).toBe("own");
    expect(findListener("::1", 18901, { read, uid: 1000 })).toBe("foreign");
  });
});

test("loopback addresses are distinguished from others", () => {
  expect(["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].map(isLoopbackAddress)).toEqual(Array(4).fill(true));
  expect(["10.0.0.1", "::2", "2001:db8::127.0.0.1", ""].map(isLoopbackAddress)).toEqual(Array(4).fill(false));
});
