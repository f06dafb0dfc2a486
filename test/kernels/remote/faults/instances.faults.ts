import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Instances } from "../../../../src/kernels/remote/history/instances.ts";
import { ago } from "../../../support/ago.ts";
import { describeWith } from "../../../support/requirements.ts";
import { type HelperOnServer, quiet, serverRequirements, startHelperOnServer } from "../helpers.ts";

const soon = () => AbortSignal.timeout(120_000);

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `who uses what on ${name}`, (python) => {
    let here: HelperOnServer;
    const created: string[] = [];
    beforeAll(async () => {
      here = await startHelperOnServer(python);
    });
    afterAll(() => here.stop());
    beforeEach(() => mkdirSync(there("instances"), { recursive: true }));
    afterEach(async () => {
      for (const id of created.splice(0)) await here.server.deleteKernel(id);
      rmSync(there(), { recursive: true, force: true });
    });

    const there = (...names: string[]) => join(here.started.home, "notebooks/.cellwright", ...names);
    const open = (instance: string) => {
      const { server, helper } = here;
      const place = { name: server.name, call: helper.call, notebooksFolder: "notebooks", instance };
      return new Instances({ server, place, log: quiet });
    };
    const newKernel = async (): Promise<string> => {
      const id = await here.server.createKernel(soon());
      created.push(id);
      return id;
    };
    const living = () => here.server.kernels(soon());
    function keepSession(id: string, more: object = {}): void {
      mkdirSync(there(id), { recursive: true });
      writeFileSync(there(id, "session.json"), JSON.stringify({ format: 1, id, ...more }));
    }
    const beatAgo = (instance: string, seconds: number) => {
      writeFileSync(there("instances", instance), "");
      utimesSync(there("instances", instance), ago(seconds * 1_000), ago(seconds * 1_000));
    };

    test("deletes kernels whose program is dead and whose session is over, and no others", async () => {
      const ended = await newKernel();
      const unknown = await newKernel();
      const helpers = await newKernel();
      const adoptable = await newKernel();
      const ofLive = await newKernel();
      const notOurs = await newKernel();
      keepSession("ended", { endedAt: "2026-11-01T00:00:00.000Z" });
      keepSession("running");
      const dead = open("dead");
      await dead.noteKernel(ended, { sessionId: "ended", language: "python" });
      await dead.noteKernel(unknown, { sessionId: "unknown", language: "bash" });
      await dead.noteKernel(helpers, {});
      await dead.noteKernel(adoptable, { sessionId: "running", language: "python" });
      await open("live").noteKernel(ofLive, { sessionId: "ended", language: "python" });
      beatAgo("live", 30);
      const swept = open("new");
      await swept.heartbeat();

      beatAgo("dead", 59);
      expect(await swept.sweep()).toEqual([]);
      beatAgo("dead", 61);
      expect((await swept.sweep()).sort()).toEqual([ended, unknown, helpers].sort());
      const left = await living();
      expect(left).toEqual(expect.arrayContaining([adoptable, ofLive, notOurs]));
      for (const id of [ended, unknown, helpers]) expect(left).not.toContain(id);
      expect(readdirSync(there("kernels")).sort()).toEqual([adoptable, ofLive].sort());

      // Adopted: it belongs to the new program, whatever happens to its session's record.
      await swept.noteKernel(adoptable, { sessionId: "running", language: "python" });
      rmSync(there("running"), { recursive: true });
      expect(await swept.sweep()).toEqual([]);
      expect(await living()).toContain(adoptable);
    });

    test("forgets marks of kernels that are gone, and leaves those of a server that shares the disk", async () => {
      const instances = open("one");
      await instances.start();
      await instances.noteKernel("gone-0000", { sessionId: "s1", language: "python" });
      writeFileSync(there("kernels", "elsewhere"), JSON.stringify({ session: "s1", instance: "x", server: "other 1" }));
      writeFileSync(there("kernels", "broken"), "{");
      expect(await instances.sweep()).toEqual([]);
      expect(readdirSync(there("kernels")).sort()).toEqual(["broken", "elsewhere"]);
      await instances.noteKernel("k1", { sessionId: "s1", language: "python" });
      expect(JSON.parse(readFileSync(there("kernels", "k1"), "utf8"))).toMatchObject({
        session: "s1",
        language: "python",
        instance: "one",
      });
      await instances.forgetKernel("k1");
      await instances.forgetKernel("k1");
      expect(readdirSync(there("kernels")).sort()).toEqual(["broken", "elsewhere"]);
      expect(readdirSync(there("instances"))).toEqual(["one"]);
      await instances.dispose();
      expect(readdirSync(there("instances"))).toEqual([]);
    });

    test("clears away what programs of yesterday left", async () => {
      beatAgo("yesterday", 90_000);
      beatAgo("today", 3_600);
      await open("one").heartbeat();
      expect(readdirSync(there("instances")).sort()).toEqual(["one", "today"]);
    });
  });
}
