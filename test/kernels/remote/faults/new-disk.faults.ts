import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type App, createApp } from "../../../../src/app.ts";
import { LOCAL_OWNER } from "../../../../src/engine/sessions/sessions.ts";
import { parseOptions } from "../../../../src/options/options.ts";
import { startJupyterServer, type TestJupyterServer } from "../../../support/jupyter-server.ts";
import { describeWith } from "../../../support/requirements.ts";
import { quiet, serverRequirements } from "../helpers.ts";

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `the whole program over ${name}`, (python) => {
    const base = mkdtempSync(join(tmpdir(), "cw-new-disk-"));
    const apps: App[] = [];
    let server: TestJupyterServer;
    beforeAll(async () => {
      server = await startJupyterServer(python);
    });
    afterEach(async () => {
      for (const app of apps.splice(0)) await app.dispose();
    });
    afterAll(async () => {
      await server.stop();
      rmSync(base, { recursive: true, force: true });
    });

    async function open(disk: string): Promise<App> {
      const flags = ["--kernel", "jupyter", "--jupyter-url", server.url, "--data-dir", join(base, disk)];
      const { options } = parseOptions(flags, { JUPYTER_TOKEN: server.token }, () => "");
      const app = await createApp(options, { log: quiet });
      apps.push(app);
      return app;
    }
    const kernels = async () =>
      (await fetch(`${server.url}/api/kernels`, { headers: { Authorization: `token ${server.token}` } })).json();

    test("finds sessions, history and files again on a new disk, and leaves nothing of one that is deleted", async () => {
      const first = await open("first");
      const session = await first.sessions.create(LOCAL_OWNER, { name: "Sales" });
      const run = session.execute("open('a.txt', 'w').write('kept'); print('x' * 100_000)");
      const ended = await run.finished;
      expect(ended).toMatchObject({ status: "ok", files: [{ path: "a.txt", change: "created" }] });
      await first.dispose();
      expect(await kernels()).toEqual([]);

      const second = await open("second");
      const again = await second.sessions.get(LOCAL_OWNER, "Sales");
      expect(again.id).toBe(session.id);
      expect(await second.store.history(again.id)).toMatchObject([{ status: "ok", outputs: ended.outputs }]);
      const { bytes } = await again.workspace.read("a.txt", { maxBytes: 100 });
      expect(Buffer.from(bytes).toString()).toBe("kept");
      await second.sessions.close(again, { deleteFiles: true });
      const there = join(server.home, "cellwright");
      expect(readdirSync(there)).toEqual([".cellwright"]);
      expect(readdirSync(join(there, ".cellwright"))).not.toContain(session.id);
      await second.dispose();
      expect(await kernels()).toEqual([]);
      expect(readdirSync(join(there, ".cellwright/instances"))).toEqual([]);
      expect(readdirSync(join(there, ".cellwright/kernels"))).toEqual([]);
    }, 90_000);
  });
}
