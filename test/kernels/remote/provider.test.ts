import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { StartOptions } from "../../../src/kernels/kernel.ts";
import { createRemoteProvider } from "../../../src/kernels/remote/provider.ts";
import { createLog } from "../../../src/log.ts";
import { result, run } from "../../contracts/kernel.ts";
import { startJupyterServer } from "../../support/jupyter-server.ts";
import { describeWith } from "../../support/requirements.ts";

describeWith("jupyterServer", "several Jupyter servers", (python) => {
  test("share the sessions; one that is gone loses its sessions to the other, and comes back", async () => {
    const folder = await mkdtemp(join(tmpdir(), "cw-servers-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const servers = await Promise.all([startJupyterServer(python), startJupyterServer(python)]);
    onTestFinished(async () => {
      for (const server of servers) await server.stop();
    });
    const tokenFile = join(folder, "tokens");
    await writeFile(tokenFile, servers.map(({ url, token }) => `${url}/ ${token}\n`).join(""), { mode: 0o600 });
    const provider = await createRemoteProvider({
      urls: servers.map(({ url }) => url),
      token: `@${tokenFile}`,
      notebooksFolder: "books",
      coolDownMs: 30_000,
      startTimeoutMs: 120_000,
      times: { pingMs: 300, unreachableMs: 1_000 },
      log: createLog("silent"),
    });
    onTestFinished(() => provider.dispose());
    const slot = (sessionId: string): StartOptions => ({
      sessionId,
      workspaceDir: join(folder, sessionId),
      runDir: join(folder, sessionId, "run"),
      signal: AbortSignal.timeout(120_000),
    });
    const start = (sessionId: string) => provider.start({ language: "python" }, slot(sessionId));
    const [one, two] = [await start("one"), await start("two")];
    const placeOf = async (kernel: typeof one) => String(result(await run(kernel, "import os; os.getcwd()")));
    const homes = servers.map(({ home }) => join(home, "books"));
    expect((await Promise.all([placeOf(one), placeOf(two)])).sort()).toEqual(
      [`'${homes[0]}/one'`, `'${homes[1]}/two'`].sort(),
    );

    await provider.workspace?.("two").write("note.txt", Buffer.from("kept"));
    await servers[0]?.kill();
    expect((await one.closed).reason).toContain("cannot be reached");
    const moved = await start("one");
    expect(await placeOf(moved)).toBe(`'${homes[1]}/one'`);
    expect(result(await run(two, "open('note.txt').read()"))).toBe("'kept'");
    expect(Object.keys(provider.backends?.status().ports ?? {})).toHaveLength(2);
  });
});
