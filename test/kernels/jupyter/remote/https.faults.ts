import { readFileSync } from "node:fs";
import { type AddressInfo, connect } from "node:net";
import { createServer, type Server } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { failure, result, run } from "../../../contracts/kernel.ts";
import { type Authority, createAuthority, hasOpenssl } from "../../../support/authority.ts";
import { describeWith } from "../../../support/requirements.ts";
import { remoteKernels } from "./remote-kernels.ts";

describe.skipIf(!hasOpenssl)("needs openssl", () => {
  describeWith("jupyterServer", "a Jupyter server behind https, with a certificate of one's own", (python) => {
    const remote = remoteKernels(python, { prefix: "/user/a/" });
    let authority: Authority;
    let front: Server;
    let url: string;

    beforeAll(async () => {
      const { url: plain } = await remote.jupyter();
      authority = createAuthority();
      front = createServer(authority.server, (socket) => {
        const behind = connect(Number(new URL(plain).port), "127.0.0.1");
        socket.pipe(behind).pipe(socket);
        socket.on("error", () => behind.destroy());
        behind.on("error", () => socket.destroy());
      });
      await new Promise<void>((resolve) => front.listen(0, "localhost", resolve));
      url = `https://localhost:${(front.address() as AddressInfo).port}/user/a`;
    });
    afterAll(() => {
      front?.close();
      authority?.remove();
    });

    test("runs cells when the authority is named", async () => {
      const { kernel } = await remote.start({ url, ca: readFileSync(authority.certificateFile, "utf8") });
      const events = await run(kernel, "6 * 7");
      expect(failure(events)).toBeUndefined();
      expect(result(events)).toBe("42");
    });

    test("is not trusted without it, and one sentence says what to do", async () => {
      const server = await remote.server({ url });
      await expect(server.check(AbortSignal.timeout(10_000))).rejects.toMatchObject({
        code: "server_unreachable",
        message: expect.stringMatching(/certificate/),
        hint: expect.stringContaining("--jupyter-ca"),
      });
    });
  });
});
