import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Call } from "../../../../src/kernels/remote/files/helper.ts";
import { openRemoteWorkspace } from "../../../../src/kernels/remote/files/workspace.ts";
import { createMirror, type MirrorPlace } from "../../../../src/kernels/remote/history/mirror.ts";
import { openDiskStore } from "../../../../src/store/disk.ts";
import { openMirroredStore } from "../../../../src/store/mirrored.ts";
import type { Mirror, Store } from "../../../../src/store/store.ts";
import { execution, record, testStore } from "../../../contracts/store.ts";
import { ago } from "../../../support/ago.ts";
import { describeWith } from "../../../support/requirements.ts";
import { type HelperOnServer, quiet, serverRequirements, startHelperOnServer, startPlainHelper } from "../helpers.ts";

const outputName = `${"0123456789".repeat(4)}.png`;

describe("the mirror", () => {
  let base: string;
  let folder: string;
  let plain: ReturnType<typeof startPlainHelper>;
  let asked: { operation: string; chars: number }[];

  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), "cw-mirror-"));
    folder = join(base, "here/s1");
    mkdirSync(join(folder, "outputs"), { recursive: true });
    plain = startPlainHelper({ home: base });
    asked = [];
  });
  afterEach(async () => {
    await plain.stop();
    rmSync(base, { recursive: true, force: true });
  });

  const there = (...names: string[]) => join(base, "notebooks/.cellwright", ...names);
  const here = (...names: string[]) => join(folder, ...names);
  const call: Call = (operation, args, options) => {
    asked.push({ operation, chars: JSON.stringify(args).length });
    return plain.call(operation, args, options);
  };
  const placeNamed = (instance: string, notebooksFolder = "notebooks"): MirrorPlace => ({
    ...{ name: "here", call, notebooksFolder, instance },
  });
  const open = (instance = "one", places = [placeNamed(instance)]): Mirror =>
    createMirror({ places, placeOf: () => places[0], log: quiet });
  const beat = (instance: string) => plain.call("heartbeat", { notebooks: "notebooks", instance });
  const die = (instance: string) => utimesSync(there("instances", instance), ago(61_000), ago(61_000));

  function writeSession(): void {
    writeFileSync(here("session.json"), '{"id":"s1"}');
    writeFileSync(here("journal.ndjson"), "header\nfirst\n");
    writeFileSync(here("outputs", outputName), "picture");
    writeFileSync(here("outputs", "e1.txt"), "printed");
    mkdirSync(here("run"), { recursive: true });
    writeFileSync(here("run", "remote-kernel.json"), "{}");
    writeFileSync(here("lock.1"), "ours");
    mkdirSync(here("workspace"), { recursive: true });
    writeFileSync(here("workspace", "data.csv"), "the user's");
  }

  test("has what is kept of a session, private, and neither its files nor our locks", async () => {
    writeSession();
    await open().push("s1", folder);
    expect(readdirSync(there("s1")).sort()).toEqual(["holder", "journal.ndjson", "outputs", "run", "session.json"]);
    expect(readFileSync(there("s1/journal.ndjson"), "utf8")).toBe("header\nfirst\n");
    expect(readdirSync(there("s1/outputs")).sort()).toEqual([outputName, "e1.txt"]);
    expect(readFileSync(there("s1/run/remote-kernel.json"), "utf8")).toBe("{}");
    for (const path of ["", "outputs", "run"]) expect(statSync(there("s1", path)).mode & 0o777).toBe(0o700);
    expect(statSync(there("s1/session.json")).mode & 0o777).toBe(0o600);
  });

  test("is sent only what is new: the journal's end, records that changed, outputs once", async () => {
    writeSession();
    writeFileSync(here("outputs", outputName), Buffer.alloc(300_000));
    appendFileSync(here("journal.ndjson"), "x".repeat(200_000));
    const mirror = open();
    await mirror.push("s1", folder);
    asked = [];
    await mirror.push("s1", folder);
    expect(asked).toEqual([]);
    appendFileSync(here("journal.ndjson"), "second\n");
    appendFileSync(here("outputs", "e1.txt"), " more");
    writeFileSync(here("session.json"), '{"id":"s1","cells":2}');
    await mirror.push("s1", folder);
    expect(asked.map(({ operation }) => operation)).toEqual(["mirror_put"]);
    expect(asked[0]?.chars).toBeLessThan(1_000);
    // A later start of the program does not know the state of the copy, and reads it.
    asked = [];
    appendFileSync(here("journal.ndjson"), "third\n");
    await open("two").push("s1", folder);
    expect(asked.map(({ operation }) => operation)).toEqual(["mirror_look", "mirror_put"]);
    expect(asked[1]?.chars).toBeLessThan(1_000);
    for (const path of ["journal.ndjson", "outputs/e1.txt", "session.json"]) {
      expect(readFileSync(there("s1", path), "utf8")).toBe(readFileSync(here(path), "utf8"));
    }
  });

  test("loses the record of a kernel that is gone", async () => {
    writeSession();
    const mirror = open();
    await mirror.push("s1", folder);
    rmSync(here("run"), { recursive: true });
    await mirror.push("s1", folder);
    expect(readdirSync(there("s1/run"))).toEqual([]);
  });

  test("comes back whole, several megabytes too", async () => {
    writeSession();
    writeFileSync(here("outputs", outputName), Buffer.alloc(3_000_000, "ab"));
    await open().push("s1", folder);
    const copy = join(base, "new/s1");
    await open("two").pull("s1", copy);
    expect(readdirSync(copy).sort()).toEqual(["journal.ndjson", "outputs", "run", "session.json"]);
    for (const path of ["session.json", "journal.ndjson", `outputs/${outputName}`, "outputs/e1.txt"]) {
      expect(readFileSync(join(copy, path)).equals(readFileSync(here(path)))).toBe(true);
    }
    expect(statSync(copy).mode & 0o777).toBe(0o700);
    await expect(open().pull("s2", join(base, "new/s2"))).rejects.toMatchObject({ code: "session_not_found" });
  });

  test("is not believed: links and names that lead elsewhere are not fetched", async () => {
    writeSession();
    await open().push("s1", folder);
    writeFileSync(join(base, "secret"), "flag");
    symlinkSync(join(base, "secret"), there("s1/outputs/link.txt"));
    writeFileSync(there("s1/lock.7"), "forged");
    writeFileSync(there("s1/outputs/.hidden"), "forged");
    const copy = join(base, "new/s1");
    await open("two").pull("s1", copy);
    expect(readdirSync(join(copy, "outputs")).sort()).toEqual([outputName, "e1.txt"]);
    expect(existsSync(join(copy, "lock.7"))).toBe(false);
    const lying: Call = async (operation, ...rest) =>
      operation === "mirror_look"
        ? ({ files: { "session.json": 2, "../../evil": 4, "outputs/../../evil": 4 }, journal: null } as never)
        : plain.call(operation, ...rest);
    const place = { ...placeNamed("three"), call: lying };
    await createMirror({ places: [place], placeOf: () => place, log: quiet }).pull("s1", join(base, "new/s3"));
    expect(readdirSync(join(base, "new/s3"))).toEqual(["session.json"]);
    expect(existsSync(join(base, "evil"))).toBe(false);
    await expect(
      plain.call("mirror_get", { notebooks: "notebooks", session: "s1", path: "../s1/holder", offset: 0, length: 9 }),
    ).rejects.toMatchObject({ refusal: { kind: "bug" } });
  });

  test("lists the sessions of dead programs, by the server's clock, and not those of live ones", async () => {
    writeSession();
    await beat("one");
    await open("one").push("s1", folder);
    const mirror = open("two");
    expect(await mirror.list()).toEqual([]);
    die("one");
    expect(await mirror.list()).toEqual(["s1"]);
    await beat("one");
    expect(await mirror.list()).toEqual([]);
    await plain.call("instance_ends", { notebooks: "notebooks", instance: "one" });
    expect(await mirror.list()).toEqual(["s1"]);
    rmSync(there("s1/session.json"));
    expect(await mirror.list()).toEqual([]);
  });

  test("gives a session to one live program at a time, and back to the disk where it began", async () => {
    writeSession();
    await beat("one");
    await open("one").push("s1", folder);
    await beat("two");
    const copy = join(base, "new/s1");
    await open("two").pull("s1", copy);
    expect(await open("two").claim("s1", copy)).toBe(false);
    await expect(open("two").push("s1", copy)).rejects.toMatchObject({ code: "session_in_use" });
    // The program crashed and restarted on the same disk: it need not wait until it counts as dead.
    expect(await open("one-restarted").claim("s1", folder)).toBe(true);
    await open("one-restarted").push("s1", folder);
    die("one");
    expect(await open("two").claim("s1", copy)).toBe(true);
    expect(await open("one-restarted").claim("s1", folder)).toBe(false);
  });

  test("brings a folder up to date before a program goes on with its session", async () => {
    writeSession();
    await open("one").push("s1", folder);
    const copy = join(base, "new/s1");
    const two = open("two");
    await two.pull("s1", copy);
    appendFileSync(join(copy, "journal.ndjson"), "elsewhere\n");
    writeFileSync(join(copy, "session.json"), '{"id":"s1","cells":9}');
    await two.push("s1", copy);
    expect(await open("one").claim("s1", folder)).toBe(true);
    expect(readFileSync(here("journal.ndjson"), "utf8")).toBe("header\nfirst\nelsewhere\n");
    expect(readFileSync(here("session.json"), "utf8")).toContain('"cells":9');
  });

  test("keeps another history aside instead of writing over it", async () => {
    writeSession();
    await open().push("s1", folder);
    writeFileSync(here("journal.ndjson"), "header\nanother\n");
    await open().push("s1", folder);
    expect(readFileSync(there("s1/journal.ndjson"), "utf8")).toBe("header\nanother\n");
    expect(readFileSync(there("s1/journal.1.ndjson"), "utf8")).toBe("header\nfirst\n");
  });

  test("is filled again when it or a part of it was removed", async () => {
    writeSession();
    const mirror = open();
    await mirror.push("s1", folder);
    truncateSync(there("s1/journal.ndjson"), 3);
    appendFileSync(here("journal.ndjson"), "second\n");
    await mirror.push("s1", folder);
    expect(readFileSync(there("s1/journal.ndjson"), "utf8")).toBe("header\nfirst\nsecond\n");
    rmSync(there("s1"), { recursive: true });
    appendFileSync(here("journal.ndjson"), "third\n");
    await mirror.push("s1", folder);
    expect(readFileSync(there("s1/journal.ndjson"), "utf8")).toBe("header\nfirst\nsecond\nthird\n");
    expect(readdirSync(there("s1")).sort()).toEqual(["holder", "journal.ndjson", "outputs", "run", "session.json"]);
  });

  test("can be repeated, when it is unknown whether it arrived", async () => {
    writeSession();
    let isDeaf = false;
    const place: MirrorPlace = {
      ...placeNamed("one"),
      call: async (operation, args, options) => {
        const answer = await plain.call(operation, args, options);
        if (isDeaf) throw new Error("the answer was lost");
        return answer as never;
      },
    };
    const mirror = createMirror({ places: [place], placeOf: () => place, log: quiet });
    await mirror.push("s1", folder);
    appendFileSync(here("journal.ndjson"), "second\n");
    isDeaf = true;
    await expect(mirror.push("s1", folder)).rejects.toThrow("the answer was lost");
    isDeaf = false;
    appendFileSync(here("journal.ndjson"), "third\n");
    await mirror.push("s1", folder);
    expect(readFileSync(there("s1/journal.ndjson"), "utf8")).toBe("header\nfirst\nsecond\nthird\n");
  });

  test("forgets a session's copy and files, many of them too, and nothing else", async () => {
    writeSession();
    const mirror = open();
    for (const id of ["s1", "s10", "kernels"]) {
      await mirror.push(id, folder);
      const workspace = openRemoteWorkspace({ call, notebooksFolder: "notebooks", sessionId: id });
      await workspace.write("a/b.txt", Buffer.from("x"));
    }
    writeFileSync(join(base, "notebooks/own.ipynb"), "the user's");
    mkdirSync(join(base, "notebooks/s1/many"));
    for (let count = 0; count < 20_000; count += 1) writeFileSync(join(base, "notebooks/s1/many", `${count}`), "");
    symlinkSync("../own.ipynb", join(base, "notebooks/s1/link"));
    await plain.call("mark_kernel", { notebooks: "notebooks", kernel: "k1", mark: { session: "s10" } });
    await mirror.forget("s1");
    expect(readdirSync(join(base, "notebooks")).sort()).toEqual([".cellwright", "kernels", "own.ipynb", "s10"]);
    expect(
      readdirSync(there())
        .filter((name) => !name.startsWith("."))
        .sort(),
    ).toEqual([...["kernels", "kernels.", "s10", "trash"]]);
    expect(readdirSync(there("trash"))).toEqual([]);
    await mirror.forget("kernels");
    expect(readdirSync(there("kernels"))).toEqual(["k1"]);
    expect(await mirror.list()).toEqual(["s10"]);
    await mirror.forget("never-seen");
  });

  test("follows a session that moves to another server, and finds its newest copy", async () => {
    writeSession();
    const places = [placeNamed("one", "first"), placeNamed("one", "second")];
    let current = 0;
    const mirror = createMirror({ places, placeOf: () => places[current], log: quiet });
    await mirror.push("s1", folder);
    current = 1;
    appendFileSync(here("journal.ndjson"), "second\n");
    await mirror.push("s1", folder);
    expect(await mirror.list()).toEqual(["s1"]);
    await mirror.pull("s1", join(base, "new/s1"));
    expect(readFileSync(join(base, "new/s1/journal.ndjson"), "utf8")).toBe("header\nfirst\nsecond\n");
    await mirror.forget("s1");
    expect(await mirror.list()).toEqual([]);
  });

  test("does without a server that is away, unless it is the only one", async () => {
    writeSession();
    const away: MirrorPlace = { ...placeNamed("one"), call: () => Promise.reject(new Error("away")) };
    const places = [placeNamed("one"), away];
    const mirror = createMirror({ places, placeOf: () => places[0], log: quiet });
    await mirror.push("s1", folder);
    expect(await mirror.list()).toEqual(["s1"]);
    await expect(mirror.forget("s1")).rejects.toThrow("away");
    await expect(createMirror({ places: [away], placeOf: () => away, log: quiet }).list()).rejects.toThrow("away");
  });
});

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `on ${name}`, (python) => {
    let base: string;
    let here: HelperOnServer;
    let round = 0;
    const stores: Store[] = [];
    beforeAll(async () => {
      base = mkdtempSync(join(tmpdir(), "cw-mirror-"));
      here = await startHelperOnServer(python);
    });
    afterAll(async () => {
      await here.stop();
      rmSync(base, { recursive: true, force: true });
    });
    beforeEach(() => {
      round += 1;
    });
    afterEach(async () => {
      for (const store of stores.splice(0)) await store.dispose();
    });

    async function open(disk: string): Promise<Store> {
      const { call } = here.helper;
      const place = { name: here.server.name, call, notebooksFolder: `round-${round}`, instance: disk };
      const store = openMirroredStore({
        store: await openDiskStore({ dataDir: join(base, `${round}-${disk}`), log: quiet }),
        mirror: createMirror({ places: [place], placeOf: () => place, log: quiet }),
        log: quiet,
      });
      stores.push(store);
      return store;
    }

    testStore({ name: "a store with a mirror on a server", open: () => open("disk") });

    test("a new disk gets history and outputs from the server", async () => {
      const shown = execution("a", {
        outputs: [{ type: "display", data: { "image/png": Buffer.alloc(2_000_000, 7).toString("base64") } }],
      });
      const first = await open("first");
      await first.claim("s1");
      await first.saveSession(record("s1"));
      await first.begin("s1", execution("a", { status: "running" }));
      await first.finish("s1", shown);
      const second = await open("second");
      expect(await second.sessions()).toEqual([record("s1")]);
      expect(await second.history("s1")).toEqual([shown]);
      await second.forget("s1");
      expect(readdirSync(join(here.started.home, `round-${round}/.cellwright`)).sort()).toEqual([".lock", "trash"]);
    });
  });
}
