import { type AddressInfo, connect } from "node:net";
import { createServer, type Server } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { JupyterServer } from "../../../../src/kernels/remote/server/server.ts";
import { createLog } from "../../../../src/log.ts";
import { type Authority, createAuthority, hasOpenssl } from "../../../support/authority.ts";
import { startJupyterServer, type TestJupyterServer } from "../../../support/jupyter-server.ts";
import { startStdio } from "../../../support/program.ts";
import { describeWith } from "../../../support/requirements.ts";

describe.skipIf(!hasOpenssl)("needs openssl", () => {
  describeWith("jupyterServer", "a Jupyter server behind https, with a certificate of one's own", (python) => {
    let jupyter: TestJupyterServer;
    let authority: Authority;
    let front: Server;
    let url: string;
    let token: string;

    beforeAll(async () => {
      jupyter = await startJupyterServer(python, { prefix: "/user/a/" });
      token = jupyter.token;
      authority = createAuthority();
      front = createServer(authority.server, (socket) => {
        const behind = connect(Number(new URL(jupyter.url).port), "127.0.0.1");
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
      return jupyter?.stop();
    });

    const startWith = (env: Record<string, string>) =>
      startStdio({
        args: ["--kernel", "jupyter", "--jupyter-url", url],
        env: { JUPYTER_TOKEN: token, ...env },
      });

    test("runs cells when the authority is named", async () => {
      const client = await startWith({ NODE_EXTRA_CA_CERTS: authority.certificateFile });
      expect((await client.run("6 * 7")).text).toContain("42");
    });

    test("is not trusted without it, and one sentence says what to do", async () => {
      const server = new JupyterServer({ url, token, log: createLog("silent") });
      await expect(server.check(AbortSignal.timeout(120_000))).rejects.toMatchObject({
        code: "server_unreachable",
        message: expect.stringMatching(/certificate/),
        hint: expect.stringContaining("NODE_EXTRA_CA_CERTS"),
      });
    });
  });
});
