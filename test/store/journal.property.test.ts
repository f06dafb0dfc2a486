import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { Journal, type JournalRecord } from "../../src/store/journal.ts";
import { execution } from "../contracts/store.ts";

const folder = mkdtempSync(join(tmpdir(), "cellwright-journal-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newPath = () => join(folder, `journal-${++files}`);

const records: fc.Arbitrary<JournalRecord[]> = fc.array(
  fc.record({
    type: fc.constantFrom("begin" as const, "finish" as const),
    execution: fc
      .record({
        id: fc.constantFrom("a", "b", "c", "ü", "__proto__"),
        code: fc.string({ unit: "binary", maxLength: 30 }),
      })
      .map(({ id, code }) => execution(id, { code })),
  }),
  { maxLength: 8 },
);

async function write(path: string, all: JournalRecord[]): Promise<void> {
  const journal = new Journal(path, "s1");
  for (const record of all) await journal.append(record);
  await journal.close();
}

/** The state of each cell, in start order. */
async function read(path: string): Promise<[string, JournalRecord | undefined][]> {
  const journal = new Journal(path, "s1");
  const entries = [...(await journal.index())];
  return Promise.all(entries.map(async ([id, entry]) => [id, await journal.read(entry)]));
}

/** The same computed from all records: the newest counts, but no `begin` after a `finish`. */
function newest(all: JournalRecord[]): [string, JournalRecord][] {
  const known = new Map<string, JournalRecord>();
  for (const record of all) {
    const { id } = record.execution;
    if (record.type === "finish" || known.get(id)?.type !== "finish") known.set(id, record);
  }
  return [...known];
}

const asWritten = (record: unknown) => JSON.parse(JSON.stringify(record));

test("what was written is read again", async () => {
  await fc.assert(
    fc.asyncProperty(records, async (all) => {
      const path = newPath();
      await write(path, all);
      expect(await read(path)).toEqual(asWritten(newest(all)));
    }),
    { numRuns: 150 },
  );
});

test("cut off anywhere, all whole lines are read, and what comes after a repair is read too", async () => {
  await fc.assert(
    fc.asyncProperty(records, fc.nat(), records, async (all, place, more) => {
      const path = newPath();
      await write(path, all);
      const bytes = readFileSync(path, { flag: "a+" });
      const left = bytes.subarray(0, place % (bytes.length + 1));
      writeFileSync(path, left);
      // A line is complete even without its line end. The first one names the format.
      const lines = left.toString().split("\n").slice(1);
      const whole = all.filter((record, index) => lines[index] === JSON.stringify(record));
      expect(await read(path)).toEqual(asWritten(newest(whole)));
      await write(path, more);
      expect(await read(path)).toEqual(asWritten(newest([...whole, ...more])));
    }),
    { numRuns: 150 },
  );
});

test("damaged anywhere, nothing before the damage is lost, and reading does not fail", async () => {
  await fc.assert(
    fc.asyncProperty(records, fc.nat(), fc.uint8Array({ minLength: 1, maxLength: 40 }), async (all, place, junk) => {
      const path = newPath();
      await write(path, all);
      const bytes = readFileSync(path, { flag: "a+" });
      const headerEnd = bytes.indexOf("\n") + 1;
      const from = headerEnd + (place % (bytes.length - headerEnd + 1));
      writeFileSync(path, Buffer.concat([bytes.subarray(0, from), junk, bytes.subarray(from + junk.length)]));
      const before = bytes.subarray(0, from).toString().split("\n").length - 2;
      const found = new Map(await read(path));
      for (const { execution } of all.slice(0, Math.max(before, 0))) expect([...found.keys()]).toContain(execution.id);
    }),
    { numRuns: 150 },
  );
});
