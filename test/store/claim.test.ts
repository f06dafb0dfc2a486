import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isAlive, startTimeOf } from "../../src/process/process-life.ts";
import { claim, holder, refresh, release, thisClaimant } from "../../src/store/claim.ts";
import { ago } from "../support/ago.ts";
import { until } from "../support/until.ts";

let base: string;
let count = 0;
const newFolder = () => join(base, `folder-${++count}`);

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "cellwright-claim-"));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

describe("a claim", () => {
  test("is held until it is released, and its number is not used again", async () => {
    const folder = newFolder();
    const [one, other] = [await thisClaimant(), await thisClaimant()];
    expect(await claim(folder, one)).toBe(true);
    expect(await claim(folder, one)).toBe(true);
    expect(await claim(folder, other)).toBe(false);
    expect(await holder(folder, other)).toMatchObject({ pid: process.pid });
    await release(folder, other);
    expect(await claim(folder, other)).toBe(false);
    await release(folder, one);
    expect(await holder(folder, other)).toBeUndefined();
    expect(await claim(folder, other)).toBe(true);
    expect(readdirSync(folder)).toEqual(["lock.2"]);
  });

  test("of a process that died is free", async () => {
    const folder = newFolder();
    const child = spawn(process.execPath, ["-e", ""]);
    const pid = child.pid ?? 0;
    await once(child, "exit");
    mkdirSync(folder);
    writeFileSync(join(folder, "lock.7"), JSON.stringify({ ...(await thisClaimant()), pid }));
    expect(await claim(folder, await thisClaimant())).toBe(true);
    expect(readdirSync(folder)).toEqual(["lock.8"]);
  });

  test.skipIf(process.platform === "win32")("is free when another process got its number since", async () => {
    const folder = newFolder();
    mkdirSync(folder);
    const lock = { ...(await thisClaimant()), start: "long ago" };
    writeFileSync(join(folder, "lock.1"), JSON.stringify(lock));
    expect(await claim(folder, await thisClaimant())).toBe(true);
  });

  test("from a place whose processes cannot be seen holds as long as its owner says so", async () => {
    const folder = newFolder();
    const [one, other] = [await thisClaimant(), await thisClaimant()];
    const far = { ...one, place: "another container", pid: 1, start: "1" };
    expect(await claim(folder, far)).toBe(true);
    expect(await claim(folder, other)).toBe(false);
    expect(await holder(folder, other)).toMatchObject({ pid: 1, place: "another container" });
    const longAgo = ago(120_000);
    utimesSync(join(folder, "lock.1"), longAgo, longAgo);
    expect(await refresh(folder, far)).toBe(true);
    expect(await claim(folder, other)).toBe(false);
    utimesSync(join(folder, "lock.1"), longAgo, longAgo);
    expect(await claim(folder, other)).toBe(true);
    expect(await refresh(folder, far)).toBe(false);
  });

  test("half written, as after a power cut, is free", async () => {
    const folder = newFolder();
    mkdirSync(folder);
    writeFileSync(join(folder, "lock.3"), "");
    expect(await claim(folder, await thisClaimant())).toBe(true);
    expect(readdirSync(folder)).toEqual(["lock.4"]);
  });

  test("has the highest number: a lower one, created too late, has no effect", async () => {
    const folder = newFolder();
    const [one, late] = [await thisClaimant(), await thisClaimant()];
    mkdirSync(folder);
    writeFileSync(join(folder, "lock.3"), JSON.stringify(one));
    writeFileSync(join(folder, "lock.2"), JSON.stringify(late));
    expect(await claim(folder, one)).toBe(true);
    expect(await claim(folder, late)).toBe(false);
    await release(folder, late);
    expect(await holder(folder, late)).toMatchObject({ token: one.token });
  });
});

describe("a process", () => {
  test("is alive with its own start only", async () => {
    expect(await isAlive(process.pid, await startTimeOf(process.pid))).toBe(true);
    expect(await isAlive(process.pid, undefined)).toBe(true);
    if (process.platform === "linux") expect(await isAlive(process.pid, "1")).toBe(false);
  });

  test.skipIf(process.platform !== "linux")("that died and was not collected by its parent is not alive", async () => {
    // The shell never waits for its child, just as a client may never wait for a server.
    const shell = spawn("bash", ["-c", "sleep 0.01 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
    const [line] = await once(shell.stdout, "data");
    const pid = Number(String(line));
    await expect.poll(() => readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")).toBe(true);
    expect(await isAlive(pid, "whatever")).toBe(false);
    shell.kill("SIGKILL");
  });
});

describe("processes that fight for one session", () => {
  test("never have it two at a time, while half of the owners crash", async () => {
    const notes = await fight("real", (seen) => seen.won >= 100 && seen.crashed >= 50);
    expect(notes.clashes).toBe(0);
  }, 120_000);

  test("do have it two at a time without generations, so the fight is one", async () => {
    const notes = await fight("naive", (seen) => seen.clashes > 0);
    expect(notes.clashes).toBeGreaterThan(0);
  }, 120_000);

  interface Seen {
    won: number;
    clashes: number;
    crashed: number;
  }

  async function fight(how: "real" | "naive", isOver: (seen: Seen) => boolean): Promise<Seen> {
    const folder = newFolder();
    mkdirSync(folder);
    const seen: Seen = { won: 0, clashes: 0, crashed: 0 };
    const fighters = new Set<ChildProcess>();
    let isDecided = false;
    const look = () => {
      const notes = existsSync(join(folder, "notes")) ? readFileSync(join(folder, "notes"), "utf8").split("\n") : [];
      seen.won = notes.filter((note) => note === "won").length;
      seen.clashes = notes.filter((note) => note === "two at once").length;
      return isOver(seen);
    };
    const one = async () => {
      while (!isDecided) {
        const args = [join(import.meta.dirname, "claim-fighter.mjs"), folder, how];
        const fighter = spawn(process.execPath, args, { stdio: "inherit" });
        fighters.add(fighter);
        await once(fighter, "exit");
        fighters.delete(fighter);
        seen.crashed += 1;
      }
    };
    const fights = [one(), one(), one(), one()];
    try {
      await until("the fight to be decided", look, 100_000);
    } finally {
      isDecided = true;
      for (const fighter of fighters) fighter.kill("SIGKILL");
      await Promise.all(fights);
    }
    return seen;
  }
});
