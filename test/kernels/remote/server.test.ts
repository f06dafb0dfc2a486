import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { JupyterServer, type JupyterServerConfig } from "../../../src/kernels/remote/server/server.ts";
import { readTokens } from "../../../src/kernels/remote/server/tokens.ts";
import { createLog } from "../../../src/log.ts";
import { startJupyterServer, type TestJupyterServer } from "../../support/jupyter-server.ts";
import { describeWith } from "../../support/requirements.ts";

const log = createLog("error");
const soon = () => AbortSignal.timeout(120_000);

for (const name of ["jupyterServer", "debianJupyterServer"] as const) {
  describeWith(name, `${name} over REST`, (python) => {
    let jupyter: TestJupyterServer;
    beforeAll(async () => {
      jupyter = await startJupyterServer(python, { prefix: "/user/a/" });
    });
    afterAll(() => jupyter?.stop());
    const serverAt = (changes: Partial<JupyterServerConfig> = {}) =>
      new JupyterServer({ url: jupyter.url, token: jupyter.token, log, ...changes });

    test("lets us in with the token, and says in one sentence when it does not", async () => {
      expect(await serverAt().check(soon())).toMatchObject({ version: expect.stringMatching(/^\d/) });
      const wrong = serverAt({ token: "wrong-one" }).check(soon());
      await expect(wrong).rejects.toMatchObject({
        code: "server_refused",
        message: expect.stringMatching(/token \(403\)\.$/),
      });
      await expect(wrong).rejects.not.toMatchObject({ message: expect.stringContaining("wrong-one") });
    });

    test("makes kernels, lists them and ends them, twice if need be", async () => {
      const server = serverAt();
      const id = await server.createKernel(soon());
      expect(await server.kernels()).toContain(id);
      await server.interruptKernel(id);
      await server.deleteKernel(id);
      await server.deleteKernel(id);
      expect(await server.kernels()).not.toContain(id);
      await expect(server.connect(id, { wsSession: "x", signal: soon() })).rejects.toMatchObject({
        code: "kernel_not_found",
      });
    });

    test("is known by host, port and prefix, without slashes at the end", () => {
      const { url, token } = jupyter;
      const place = new URL(url);
      expect(new JupyterServer({ url: `${url}///`, token, log })).toMatchObject({
        url,
        name: `127.0.0.1:${place.port}/user/a`,
      });
    });
  });
}

describe("a server that is none", () => {
  const servers: ReturnType<typeof createServer>[] = [];
  afterAll(() => {
    for (const server of servers) server.close();
  });
  async function serve(answer: RequestListener): Promise<JupyterServer> {
    const server = createServer(answer);
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new JupyterServer({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "t", log });
  }

  test.each<[string, RequestListener, string]>([
    ["a web page", (_, answer) => answer.end("<html>"), "does not answer as a Jupyter server does"],
    [
      "one that moved",
      (_, answer) => answer.writeHead(302, { location: "http://elsewhere/" }).end(),
      "does not answer",
    ],
    ["too old", (_, answer) => answer.end('{"version":"0.3.1"}'), "is version 0.3.1; at least 1 is needed"],
    ["one that hangs up", (_, answer) => answer.destroy(), "cannot be reached: it closed the connection"],
  ])("%s", async (_name, answer, says) => {
    await expect((await serve(answer)).check(soon())).rejects.toThrow(says);
  });

  test("an address that cannot be one is refused, without what may be secret in it", () => {
    for (const url of ["localhost:8888", "ftp://host/", "http://me:secret@host/", "nonsense secret"]) {
      const make = () => new JupyterServer({ url, log });
      expect(make).toThrow("The address of a Jupyter server must be like http://host:port");
      expect(make).not.toThrow("secret");
    }
  });

  test("a token that was copied with the address is taken out of it", () => {
    expect(new JupyterServer({ url: "http://host:8888/?token=abc", log }).url).toBe("http://host:8888");
  });
});

test("tokens of servers are read from a file of lines", async () => {
  const { mkdtemp, rm, writeFile } = await import("node:fs/promises");
  const folder = await mkdtemp("/tmp/cw-tokens-");
  try {
    await writeFile(`${folder}/good`, "# servers\nhttp://one:1/ first\n\nhttps://two/user/a second\n");
    const tokenOf = await readTokens(`@${folder}/good`);
    expect([tokenOf("http://one:1"), tokenOf("https://two/user/a/"), tokenOf("https://two")]).toEqual([
      "first",
      "second",
      undefined,
    ]);
    await writeFile(`${folder}/bad`, "only-a-secret\n");
    await expect(readTokens(`@${folder}/bad`)).rejects.toThrow("line 1");
    await expect(readTokens(`@${folder}/bad`)).rejects.not.toThrow("only-a-secret");
    await expect(readTokens(`@${folder}/missing`)).rejects.toThrow("ENOENT");
  } finally {
    await rm(folder, { recursive: true });
  }
});
